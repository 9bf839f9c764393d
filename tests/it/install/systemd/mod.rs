//! The units on a real systemd.
//!
//! One test boots a machine and runs, as an unprivileged user inside it, the tests of [`inside`]: there they use `systemctl`,
//! the journal, the hook and the socket as that user would. If no machine can be booted it prints the reason and passes.

mod inside;
mod machine;
mod service;

use machine::Machine;

use crate::harness::wait::skip_even_in_ci;

#[test]
fn the_service_works_under_a_real_systemd() {
    let machine = match Machine::boot() {
        Ok(machine) => machine,
        Err(reason) => {
            skip_even_in_ci(&format!("no systemd was booted: {reason}"));
            return;
        }
    };
    machine.install();
    let ran = machine.user(&[machine::TESTS, "install::systemd::inside::", "--ignored", "--test-threads=1"]);
    eprintln!("{}", ran.stdout);
    assert!(ran.code == Some(0) && !ran.stdout.contains(" 0 passed"), "{}", ran.stderr);
    machine.shut_down();
}
