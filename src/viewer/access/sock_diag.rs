//! Asks the Linux kernel for the owner of one TCP socket (sock_diag(7)). The tables in /proc/net list all sockets, and reading
//! them walks the kernel's whole hash table: milliseconds for each connection.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Result;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

// From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;
/// struct nlmsghdr and struct inet_diag_req_v2.
const REQUEST_BYTES: usize = 16 + 56;
/// struct nlmsghdr and struct inet_diag_msg.
const ANSWER_BYTES: usize = 16 + 72;
/// Offsets in the answer: its type, the socket's ports, which its addresses follow, and its owner.
const TYPE_AT: usize = 4;
const PORTS_AT: usize = 20;
const OWNER_AT: usize = 80;

/// Returns the owner of the socket that is bound to `local` and connected to `remote`. None if the kernel does not find it or does
/// not answer such questions.
pub fn owner(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let request = request(local, remote)?;
    let answer = ask(&request).ok()?;
    let has_type = answer[TYPE_AT..TYPE_AT + 2] == SOCK_DIAG_BY_FAMILY.to_ne_bytes();
    // The kernel may answer with a socket that listens on the port.
    let is_it = answer[PORTS_AT..PORTS_AT + 4] == ports(local, remote);
    let owner = answer[OWNER_AT..OWNER_AT + 4].try_into().ok()?;
    (has_type && is_it).then(|| u32::from_ne_bytes(owner))
}

/// Sends a request. The kernel has answered it when the call returns.
fn ask(request: &[u8]) -> Result<[u8; ANSWER_BYTES]> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; ANSWER_BYTES];
    recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(answer)
}

fn request(local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
    let (IpAddr::V4(local_ip), IpAddr::V4(remote_ip)) = (local.ip(), remote.ip()) else { return None };
    let mut request = Vec::with_capacity(REQUEST_BYTES);
    request.extend(u32::try_from(REQUEST_BYTES).ok()?.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender; then, behind the protocol, no extensions.
    request.extend([0; 8]);
    request.extend([AF_INET, IPPROTO_TCP, 0, 0]);
    // Any state.
    request.extend([0xff; 4]);
    request.extend(ports(local, remote));
    for ip in [local_ip, remote_ip] {
        request.extend(ip.octets());
        request.extend([0; 12]);
    }
    // Any interface, and no cookie.
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    Some(request)
}

fn ports(local: SocketAddr, remote: SocketAddr) -> [u8; 4] {
    let ([a, b], [c, d]) = (local.port().to_be_bytes(), remote.port().to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn only_the_socket_at_the_other_end_has_an_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, client) = listener.accept().unwrap();
        let server = server.local_addr().unwrap();
        let ours = rustix::process::geteuid().as_raw();
        assert_eq!(owner(client, server), Some(ours));
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(owner(nobody, server), None);
        assert_eq!(owner(server, nobody), None, "the listening socket of that port is another one");
    }
}
