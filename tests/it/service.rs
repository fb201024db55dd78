//! The daemon as a service manager sees it: it is told of, hands in the socket, and restarts it.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use stoker::api::wire::HostBody;

use crate::engine::{Engine, TINY};
use crate::host::{Host, SANDBOX};
use crate::level::until;

#[tokio::test]
async fn the_manager_hears_that_it_is_ready_how_it_goes_that_it_turns_and_that_it_ends() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, SANDBOX);
    let place = host.folder().join("notify");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_nonblocking(true).unwrap();
    let mut command = host.stokerd(host.client.socket());
    // Half a second is more than the looks of the measuring thread leave between turns, so that it is due by itself.
    command.env("NOTIFY_SOCKET", &place).env("WATCHDOG_USEC", "500000");
    host.launch_as(command);

    let heard = std::cell::RefCell::new(String::new());
    let hear = async || {
        let mut text = [0; 4096];
        while let Ok(many) = manager.recv(&mut text) {
            heard.borrow_mut().push_str(std::str::from_utf8(&text[..many]).unwrap());
        }
        heard.borrow().clone()
    };
    until("the pool is warm", hear, |said| said.contains("STATUS=1 warm, 0 leased, 0 starting, 0 queued\n"))
        .await;
    let fed = |said: &String| said.matches("WATCHDOG=1\n").count();
    let before = fed(&heard.borrow());
    let said = until("it feeds again and again", hear, |said| fed(said) > before + 4).await;
    assert!(said.starts_with("READY=1\nSTATUS="), "{said}");
    assert_eq!(said.matches("READY=1").count(), 1, "{said}");

    host.end_daemon(Signal::SIGTERM);
    let said = hear().await;
    assert!(said.ends_with("STOPPING=1\nSTATUS=ending, leaving instances as they are\n"), "{said}");
}

/// The daemon's command, with its standard input passed on as systemd passes a socket.
fn with_passed(host: &Host, passed: impl Into<Stdio>) -> Command {
    let plain = host.stokerd(host.client.socket());
    let mut command = Command::new("sh");
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\" 3<&0 </dev/null", "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LISTEN_FDS", "1").stdin(passed).stdout(Stdio::null());
    command
}

// Callers go on while the end of a daemon is waited for, which blocks a thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_caller_fails_while_a_daemon_with_a_passed_socket_is_restarted() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let mut host = Host::silent(engine, SANDBOX);
    let kept = UnixListener::bind(host.client.socket()).unwrap();
    let passed = || OwnedFd::from(kept.try_clone().unwrap());
    let (asked, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (client, asked, enough) = (host.client.clone(), asked.clone(), enough.clone());
            tokio::spawn(async move {
                while !enough.load(Ordering::Relaxed) {
                    // The first of these is asked before there is any daemon.
                    client.get::<HostBody>("/v1/host").await?;
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, stoker::api::client::ClientError>(())
            })
        })
        .collect();
    for _ in 0..3 {
        host.launch_as(with_passed(&host, passed()));
        let before = asked.load(Ordering::Relaxed);
        until("callers are answered", async || asked.load(Ordering::Relaxed), |now| *now > before + 40).await;
        assert!(host.end_daemon(Signal::SIGTERM).success());
        assert!(host.client.socket().exists(), "the path is not the daemon's to remove");
    }
    host.launch_as(with_passed(&host, passed()));
    enough.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap().expect("every question is answered");
    }
    assert!(host.log().contains(&format!("serving at `{}`", host.client.socket().display())));
}

#[tokio::test]
async fn what_is_passed_and_is_no_socket_to_serve_is_refused() {
    let Some(engine) = Engine::with(TINY).await else { return };
    let host = Host::silent(engine, SANDBOX);
    let datagrams = UnixDatagram::bind(host.folder().join("datagrams")).unwrap();
    let (connected, _other) = UnixStream::pair().unwrap();
    for wrong in [OwnedFd::from(datagrams), OwnedFd::from(connected)] {
        let output = with_passed(&host, wrong).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(69));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("stokerd.socket must have ListenStream= with a path"), "{said}");
    }
}
