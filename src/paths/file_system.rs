//! The type of a file system, as far as it matters: whether other machines may have the same files open.

#[cfg(target_os = "linux")]
use std::fs;
use std::path::Path;

/// The type of a file system: its magic number on Linux, the first eight letters of its name elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem(pub u64);

/// Network and cluster file systems, by magic number (linux/magic.h, and what their own sources define).
#[cfg(target_os = "linux")]
const NETWORK: [(u64, &str); 17] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x564c, "ncpfs"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1980_0812, "pvfs2"),
    (0x1983_0326, "beegfs"),
    (0x7461_636f, "ocfs2"),
    (0x0116_1970, "gfs2"),
    (0xaad7_aaea, "panfs"),
    (0xbacb_acbc, "vmhgfs"),
];

/// The magic number of everything that a program in user space serves.
#[cfg(target_os = "linux")]
const FUSE: u64 = 0x6573_5546;

/// Programs that serve files of other machines by FUSE.
#[cfg(target_os = "linux")]
const NETWORK_FUSE: [&str; 19] = [
    "sshfs",
    "glusterfs",
    "ceph-fuse",
    "cephfs",
    "s3fs",
    "s3fs-fuse",
    "goofys",
    "rclone",
    "gcsfuse",
    "blobfuse",
    "blobfuse2",
    "davfs",
    "curlftpfs",
    "smbnetfs",
    "juicefs",
    "seaweedfs",
    "mfs",
    "moosefs",
    "beegfs",
];

impl FileSystem {
    /// Returns the type of the file system where `path` is, or will be.
    #[cfg(target_os = "linux")]
    pub fn of(path: &Path) -> Option<Self> {
        let there = path.ancestors().find(|place| place.exists())?;
        // Numbers of 32 bits, which some systems give with a sign.
        rustix::fs::statfs(there).ok().map(|stat| Self(stat.f_type as u64 & 0xffff_ffff))
    }

    /// Returns the type of the file system where `path` is, or will be.
    #[cfg(not(target_os = "linux"))]
    pub fn of(path: &Path) -> Option<Self> {
        let there = path.ancestors().find(|place| place.exists())?;
        let stat = rustix::fs::statfs(there).ok()?;
        let name = stat.f_fstypename.iter().take(8).take_while(|letter| **letter != 0);
        Some(Self(name.fold(0, |number, letter| number << 8 | u64::from(*letter as u8))))
    }

    /// Returns the name of the network file system, if it is one.
    #[cfg(target_os = "linux")]
    pub fn network_name(self, path: &Path) -> Option<String> {
        if self.0 == FUSE {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let place = path.ancestors().find_map(|place| fs::canonicalize(place).ok())?;
            return network_mount(&mounts, &place);
        }
        NETWORK.iter().find(|(magic, _)| *magic == self.0).map(|(_, name)| (*name).to_owned())
    }

    /// Returns the name of the network file system, if it is one.
    #[cfg(not(target_os = "linux"))]
    pub fn network_name(self, _path: &Path) -> Option<String> {
        let name = |name: &str| name.bytes().fold(0, |number, letter| number << 8 | u64::from(letter));
        let known = ["nfs", "smbfs", "afpfs", "webdav", "ftp", "cifs"];
        known.into_iter().find(|known| name(known) == self.0).map(str::to_owned)
    }
}

/// Returns the name of the FUSE program at `place`, if it serves files of other machines.
#[cfg(target_os = "linux")]
fn network_mount(mounts: &str, place: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let kind = after.split(' ').next()?.to_owned();
        place.starts_with(&point).then_some((point.len(), kind))
    };
    // The longest prefix, and of those the one that was mounted last.
    let (_, kind) = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length)?;
    let program = kind.strip_prefix("fuse.")?;
    NETWORK_FUSE.contains(&program).then(|| program.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_differ_from_local_ones() {
        let name = |magic: u64| FileSystem(magic).network_name(Path::new("/"));
        for (magic, known) in [(0x6969, "nfs"), (0xff53_4d42, "cifs"), (0xfe53_4d42, "smb2"), (0x517b, "smb")]
        {
            assert_eq!(name(magic).as_deref(), Some(known));
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs, f2fs, and 9p, by which virtual machines see their host's disk.
        for local in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
            0xf2f5_2010,
            0x0102_1997,
        ] {
            assert_eq!(name(local), None, "{local:x}");
        }
    }

    #[test]
    fn only_network_programs_count_among_fuse_mounts() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      40 22 0:50 / /home/me rw shared:1 - fuse.sshfs me@host:/ rw\n\
                      41 40 0:51 / /home/me/my\\040disk rw - fuse.gocryptfs /x rw\n";
        let name = |place: &str| network_mount(mounts, Path::new(place));
        assert_eq!(name("/home/me/.claude-mem").as_deref(), Some("sshfs"));
        assert_eq!(name("/home/me/my disk/mem"), None);
        assert_eq!(name("/srv"), None);
    }
}
