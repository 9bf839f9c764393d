#!/bin/bash
# A real systemd, with a user manager for an unprivileged user, on a machine whose own first process is another program.
#
#   usermanager.sh boot STATE             boots, says "up", and lasts until its standard input is closed
#   usermanager.sh user STATE COMMAND...  runs a command in it as the user
#   usermanager.sh root STATE COMMAND...  runs a command in it as root
#
# STATE is a directory that the caller makes, removes, and shares with nobody. Exit code 77: this machine cannot do it, and
# the last line on standard error says why.
#
# The system is the machine's own tree under a throw-away layer, in namespaces of its own: no process, mount or cgroup of it
# outlasts `boot`, nothing on the machine is changed, and there is no network but a loopback.
set -Eeuo pipefail

NAME=memo
ID=1717
NAMESPACES=(--mount --pid --cgroup --uts --ipc --net)
SELF=$(readlink -f "$0")
VERB=${1:-}
STATE=${2:-}

cannot() {
  echo "$*" >&2
  exit 77
}

check_machine() {
  [ "$(id -u)" = 0 ] || cannot "it takes root to boot a systemd"
  local tool
  for tool in unshare nsenter setpriv pivot_root mount chroot useradd timeout systemctl journalctl dbus-daemon; do
    command -v $tool >/dev/null || cannot "$tool is not installed"
  done
  [ -x /lib/systemd/systemd ] || cannot "systemd is not installed"
  [ -e /usr/lib/systemd/user/dbus.socket ] || cannot "dbus-user-session is not installed"
  compgen -G '/lib/*/security/pam_systemd.so' >/dev/null || compgen -G '/lib*/security/pam_systemd.so' >/dev/null ||
    cannot "libpam-systemd is not installed"
  unshare "${NAMESPACES[@]}" --fork true 2>/dev/null || cannot "namespaces cannot be made here"
}

# The process that is the first one inside.
first_process() {
  local outer children
  outer=$(cat "$STATE/unshare")
  children=$(cat "/proc/$outer/task/$outer/children")
  echo "${children%% *}"
}

inside() {
  nsenter -t "$(first_process)" -a -- "$@"
}

as_user() {
  inside setpriv --reuid $ID --regid $ID --init-groups --reset-env -- env HOME=/home/$NAME USER=$NAME LOGNAME=$NAME \
    SHELL=/bin/sh LANG=C.UTF-8 PATH=/home/$NAME/.local/bin:/usr/local/bin:/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/$ID \
    DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$ID/bus sh -c 'cd && exec "$@"' sh "$@"
}

end() {
  # The shell reports what it saw killed.
  exec 2>/dev/null
  # With the first process inside, the kernel ends all others.
  kill -KILL "$(cat "$STATE/unshare")" || true
  wait || true
  local try
  for try in $(seq 100); do
    find "$CGROUP" -depth -type d -exec rmdir {} + || true
    [ -e "$CGROUP" ] || break
    sleep 0.05
  done
}

boot() {
  check_machine
  local all
  all=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  [ -n "$all" ] || cannot "there are no cgroups of version 2"
  CGROUP=$all/claude-mem-test-$$
  mkdir "$CGROUP" 2>/dev/null || cannot "cgroups cannot be made here"
  echo "$CGROUP" >"$STATE/cgroup"
  trap end EXIT
  trap 'exit 1' INT TERM HUP
  mkdir -p "$STATE/layer"
  (
    echo $BASHPID >"$CGROUP/cgroup.procs"
    exec unshare "${NAMESPACES[@]}" --fork --kill-child=SIGKILL bash "$SELF" first "$STATE"
  ) </dev/null >"$STATE/log" 2>&1 &
  echo $! >"$STATE/unshare"
  wait_for_boot $!
  echo up
  local line
  while read -r line; do :; done
}

wait_for_boot() {
  local try
  for try in $(seq 300); do
    kill -0 "$1" 2>/dev/null || died "$1"
    inside test -e /run/systemd/private 2>/dev/null && break
    sleep 0.05
  done
  local system user
  system=$(inside timeout 30 systemctl is-system-running --wait) || true
  user=$(as_user timeout 30 systemctl --user is-system-running --wait) || true
  [ "$system $user" = "running running" ] && return
  cat "$STATE/log" >&2
  inside systemctl --failed --no-pager >&2 || true
  echo "the system is $system, the user manager is $user" >&2
  exit 1
}

died() {
  local code=0
  wait "$1" || code=$?
  cat "$STATE/log" >&2
  exit $code
}

# From here on we are the first process of the new namespaces.
first() {
  local layer=$STATE/layer root=$STATE/layer/root
  # Whatever fails before systemd runs is the machine's fault.
  trap 'cannot "this machine does not let a test do: $BASH_COMMAND"' ERR
  mount --make-rprivate /
  mount -t tmpfs -o mode=755,size=4g tmpfs "$layer"
  mkdir "$layer/upper" "$layer/work" "$root"
  mount -t overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" overlay "$root"
  mount_kernel "$root"
  prepare "$root"
  cd "$root"
  mkdir -p .old
  pivot_root . .old
  umount -l /.old
  # As in a container: it leaves devices, modules, clock and kernel settings alone.
  exec env -i container=claude-mem-test PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    /lib/systemd/systemd --system --show-status=0 --log-target=console --log-level=warning </dev/null
}

mount_kernel() {
  local root=$1 name
  mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
  mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
  # Alone, even where the machine mixes both versions.
  mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755,nosuid,size=1m tmpfs "$root/dev"
  for name in null zero full random urandom tty; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
  done
  mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for name in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${name%:*}" "$root/dev/${name#*:}"; done
  for name in dev/shm tmp; do mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/$name"; done
  mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
}

prepare() {
  local root=$1 units=$1/etc/systemd/system
  echo claude-mem-test >"$root/etc/hostname"
  : >"$root/etc/fstab"
  [ -s "$root/etc/machine-id" ] || tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
  chroot "$root" useradd --create-home --shell /bin/sh --uid $ID $NAME
  # Of all that this machine would start, only what a user manager needs.
  mkdir -p "$units"
  rm -rf "$units"/*.wants "$root"/lib/systemd/system/*.wants "$root"/{etc,lib}/systemd/system-generators
  cat >"$units/test.target" <<END
[Unit]
Wants=systemd-journald.service systemd-journal-flush.service systemd-tmpfiles-setup.service dbus.socket
Wants=systemd-logind.service user@$ID.service
END
  ln -sf test.target "$units/default.target"
  ln -sf /dev/null "$units/systemd-journald-audit.socket"
  mkdir -p "$root/var/lib/systemd/linger"
  : >"$root/var/lib/systemd/linger/$NAME"
  # Only a journal on disk has files for each user, without which users cannot read what is theirs.
  rm -rf "$root/var/log/journal"
  mkdir -p "$root/var/log/journal" "$root/etc/systemd/journald.conf.d"
  printf '[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n' >"$root/etc/systemd/journald.conf.d/test.conf"
}

case $VERB in
boot | first) "$VERB" ;;
user) as_user "${@:3}" ;;
root) inside "${@:3}" ;;
*)
  sed -n '2,13s/^# \{0,1\}//p' "$SELF"
  exit 2
  ;;
esac
