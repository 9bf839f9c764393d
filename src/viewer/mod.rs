//! `claude-mem open`: the memory in a browser.
//!
//! A bridge between a loopback port and the service's socket. It exists while somebody looks, has no access to the database of
//! its own, and renders every page here: the browser gets HTML, one stylesheet and one small script. Who may use the port is
//! decided in `access`; docs/decisions/017-viewer.md has the reasons.

mod access;
mod assets;
mod checks;
mod machine;
mod notices;
mod pages;
mod reply;
mod routes;
mod server;
mod service;
mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::config::Config;
use crate::paths::Home;
use access::{Access, guard};
pub use machine::{Backup, Check, Machine};
use server::handover;
use server::presence::Presence;
use service::Service;

/// The viewer's state.
pub struct Viewer {
    home: Home,
    access: Access,
    /// Host and port, as in an address.
    authority: String,
    presence: Arc<Presence>,
    service: Service,
    machine: Arc<dyn Machine>,
    checks: checks::Checks,
}

impl Viewer {
    /// Returns an address that lets one browser in, once.
    fn entry(&self) -> anyhow::Result<String> {
        let token = self.access.issue(Instant::now())?;
        Ok(format!("http://{}{}{token}", self.authority, guard::ENTER))
    }

    /// Removes the page that led a browser here.
    fn forget_entry_page(&self) {
        let _ = std::fs::remove_file(self.home.viewer_entry());
    }
}

/// Returns an entry to the viewer that already runs, if one does.
pub fn running(home: &Home) -> Option<String> {
    handover::ask(&home.viewer_socket())
}

/// Starts a viewer, passes its first entry to `announce`, and serves until nobody looks any more.
pub fn run(
    home: &Home,
    config: &Config,
    machine: Box<dyn Machine>,
    announce: impl FnOnce(&str, u16) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    crate::worker::system::ram::share_arenas();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(2))
        .build()?;
    runtime.block_on(async {
        let port = server::Port::bind().await.context("cannot open a port on 127.0.0.1")?;
        let number = port.number()?;
        let viewer = Arc::new(Viewer {
            home: home.clone(),
            access: Access::new()?,
            authority: format!("{}:{number}", host()?),
            presence: Arc::new(Presence::new(Duration::from_secs(config.viewer.idle_s), Instant::now())),
            service: Service::new(home.socket()),
            machine: machine.into(),
            checks: checks::Checks::default(),
        });
        // Without the socket a second viewer would start, which works as well.
        let handover = handover::bind(&home.viewer_socket()).ok();
        let has_socket = handover.is_some();
        announce(&viewer.entry()?, number)?;
        let mut signals = crate::worker::signals()?;
        let router = routes::router(Arc::clone(&viewer));
        tokio::select! {
            () = server::serve(Arc::clone(&viewer), port, handover, router) => {}
            _ = signals.recv() => {}
        }
        viewer.forget_entry_page();
        if has_socket {
            let _ = std::fs::remove_file(home.viewer_socket());
        }
        Ok(())
    })
}

/// Returns a host name of this viewer alone: browsers share cookies between the ports of a host.
///
/// Every name below `localhost` is the loopback address to browsers on Linux. On other systems some ask the resolver, so the
/// address itself is used there unless the resolver knows the name.
fn host() -> anyhow::Result<String> {
    let name = format!("m{}.localhost", access::random::<4>()?);
    let is_known = || {
        let found = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 0));
        found.is_ok_and(|mut addresses| addresses.any(|address| address.ip().is_loopback()))
    };
    Ok(if cfg!(target_os = "linux") || is_known() { name } else { "127.0.0.1".into() })
}
