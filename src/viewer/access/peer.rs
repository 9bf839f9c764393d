//! The user at the other end of a loopback connection, as far as the system reports it: on Linux.

use std::net::{IpAddr, SocketAddr};

/// True if the client's socket belongs to our user, or if the system does not report it.
///
/// Other users of the machine can connect to a loopback port, and might have seen a cookie; a port has no file mode.
pub fn is_ours(client: SocketAddr, server: SocketAddr) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let ours = Some(rustix::process::geteuid().as_raw());
    #[cfg(target_os = "linux")]
    if let found @ Some(_) = super::sock_diag::owner(client, server) {
        return found == ours;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).ok());
    if tables[0].is_none() {
        return true;
    }
    tables.iter().flatten().find_map(|table| owner(table, client, server)) == ours
}

/// Finds the owner of the socket that is bound to `local` and connected to `remote`.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (local, remote) = (encoded(local)?, encoded(remote)?);
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_it = fields.nth(1)?.ends_with(&local) && fields.next()?.ends_with(&remote);
        // Between them: state, queues, timer, retransmits.
        if is_it { fields.nth(4)?.parse().ok() } else { None }
    })
}

/// An address as the table ends with it: an IPv4 address may be written as an IPv6 one.
fn encoded(address: SocketAddr) -> Option<String> {
    match address.ip() {
        IpAddr::V4(ip) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port())),
        IpAddr::V6(_) => None,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_a_connection_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(is_ours(server.peer_addr().unwrap(), server.local_addr().unwrap()));
        drop((client, server));
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert!(!is_ours(nobody, listener.local_addr().unwrap()), "a socket that is not in the table");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_owner_is_read_from_both_tables() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \u{20}  0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1035 1\n\
            \u{20}  1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 99 1\n\
            \u{20}  2: 0000000000000000FFFF00000100007F:C002 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 99 1\n";
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner(table, address(0xC001), address(8080)), Some(1000));
        assert_eq!(owner(table, address(0xC002), address(8080)), Some(1001));
        assert_eq!(owner(table, address(0xC003), address(8080)), None);
        assert_eq!(owner(table, address(8080), address(0xC001)), None);
    }
}
