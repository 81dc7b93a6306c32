//! Promise 5: the network is `lo` and nothing else, and no socket family
//! reaches around it.

#![allow(clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use common::host::{system_program, unique};
use common::{Attack, Workspace, assert_denied, assert_denied_either_way, path_str};

#[test]
fn the_namespace_is_a_new_one_with_lo_alone() {
    let workspace = Workspace::new();
    let host = fs::read_link("/proc/self/ns/net").expect("the host's namespace");
    let run = workspace
        .jail()
        .run_program(&["readlink", "/proc/self/ns/net"]);
    assert!(run.outcome().starts_with("net:["), "{run:#?}");
    assert_ne!(
        run.outcome(),
        path_str(&host),
        "the host's network namespace"
    );

    let read = |path: &str| workspace.jail().run(&["read", path]).ok().to_owned();
    let devices = read("/proc/net/dev");
    let names: Vec<&str> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    assert_eq!(names, ["lo"]);
    assert_eq!(
        read("/proc/net/route").lines().count(),
        1,
        "the heading and no route"
    );
    let routes = read("/proc/net/ipv6_route");
    assert!(routes.lines().all(|line| line.ends_with(" lo")), "{routes}");
}

#[test]
fn the_loopback_is_the_jails_own() {
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .run(&["each", "listen-tcp 127.0.0.1:0", "listen-tcp [::1]:0"]);
    assert_eq!(run.lines(), ["ok", "ok"]);

    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let tcp = tcp.local_addr().expect("its address");
    let tcp6 = TcpListener::bind("[::1]:0").expect("a listener");
    let tcp6 = tcp6.local_addr().expect("its address");
    let _keep = (TcpListener::bind(tcp), TcpListener::bind(tcp6));
    let attacks = [format!("connect-tcp {tcp}"), format!("connect-tcp {tcp6}")]
        .map(|attempt| Attack::new(attempt, &["ECONNREFUSED"]));
    assert_denied(&workspace, workspace.jail(), &attacks);
}

#[test]
fn no_address_beyond_is_reachable() {
    let workspace = Workspace::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let control = format!("connect-tcp {}", tcp.local_addr().expect("its address"));
    let control_udp = format!("send-udp {}", udp.local_addr().expect("its address"));
    let beyond = [
        "169.254.169.254:80",
        "1.1.1.1:443",
        "10.0.0.1:80",
        "[2606:4700:4700::1111]:443",
    ];
    let attacks: Vec<Attack> = beyond
        .iter()
        .flat_map(|address| {
            let unreachable = &["ENETUNREACH", "EADDRNOTAVAIL"];
            [
                Attack::new(format!("connect-tcp {address}"), unreachable).control(&control),
                Attack::new(format!("send-udp {address}"), unreachable).control(&control_udp),
            ]
        })
        .collect();
    assert_denied(&workspace, workspace.jail(), &attacks);
    let mut query = [0; 8];
    udp.recv_from(&mut query)
        .expect("the control's datagram arrived");
}

#[test]
fn names_are_not_resolved() {
    // That a lookup fails proves nothing alone; that the namespace is empty is
    // proven above. /etc/hosts still answers, so getent itself works.
    let workspace = Workspace::new();
    let run = workspace
        .jail()
        .run_program(&["getent", "hosts", "localhost"]);
    assert_eq!(run.code, Some(0), "control: {run:#?}");
    let run = workspace
        .jail()
        .run_program(&["getent", "hosts", "example.com"]);
    assert_eq!(run.code, Some(2), "{run:#?}");
}

/// The families that kernels of 5.19 and later have a number for (up to AF_MCTP).
const FAMILIES: std::ops::Range<u32> = 0..46;
/// Those and some that later kernels may add.
const FUTURE_FAMILIES: std::ops::Range<u32> = 0..64;
/// AF_UNIX, AF_INET, AF_INET6, AF_NETLINK.
const ALLOWED: [u32; 4] = [1, 2, 10, 16];

#[test]
fn every_other_family_is_denied() {
    let workspace = Workspace::new();
    // Type 15 is invalid, and the kernel says so before it looks for the
    // family: only a filter can answer EAFNOSUPPORT for a family that isn't
    // built into this kernel.
    let attacks: Vec<Attack> = FAMILIES
        .filter(|family| !ALLOWED.contains(family))
        .map(|family| Attack::new(format!("syscall socket {family} 15 0"), &["EAFNOSUPPORT"]))
        .map(|attack| attack.control_answers("EINVAL"))
        .collect();
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
    let filtered: Vec<Attack> = FUTURE_FAMILIES
        .filter(|family| !ALLOWED.contains(family))
        .flat_map(|family| {
            [
                format!("socket {family} 1 0"),
                format!("socketpair {family} 1 0 %0"),
            ]
        })
        .map(|call| Attack::filtered(&call, &["EAFNOSUPPORT"]))
        .collect();
    assert_denied_either_way(&workspace, || workspace.jail(), &filtered);
}

#[test]
fn families_of_this_kernel_are_denied_with_a_real_socket() {
    let workspace = Workspace::new();
    let attacks = [
        // AF_VSOCK, SOCK_STREAM
        Attack::new("syscall socket 40 1 0", &["EAFNOSUPPORT"]),
        // AF_PACKET, SOCK_RAW
        Attack::new("syscall socket 17 3 0", &["EAFNOSUPPORT"]).control_in_userns(),
        // The family's upper half is ignored by the kernel.
        Attack::new("syscall socket 0x100000028 1 0", &["EAFNOSUPPORT"]),
    ];
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
}

#[test]
fn netlink_is_route_alone() {
    let workspace = Workspace::new();
    let attacks: Vec<Attack> = (1..32)
        .map(|protocol| format!("socket 16 3 {protocol}"))
        .map(|call| Attack::filtered(&call, &["EAFNOSUPPORT"]))
        .collect();
    assert_denied_either_way(&workspace, || workspace.jail(), &attacks);
    let real = [
        // NETLINK_AUDIT, NETLINK_KOBJECT_UEVENT
        Attack::new("syscall socket 16 3 9", &["EAFNOSUPPORT"]),
        Attack::new("syscall socket 16 3 15", &["EAFNOSUPPORT"]),
    ];
    assert_denied_either_way(&workspace, || workspace.jail(), &real);
    // NETLINK_ROUTE, which getifaddrs(3) needs.
    assert!(
        workspace
            .jail()
            .run(&["syscall", "socket", "16", "3", "0"])
            .ok()
            .parse::<u32>()
            .is_ok()
    );
}

#[test]
fn protocols_are_the_few_that_programs_use() {
    let workspace = Workspace::new();
    let mut attacks = Vec::new();
    // AF_INET and AF_INET6. Anyone's socket call would load the module of one.
    for family in [2, 10] {
        for protocol in [
            "IPPROTO_IGMP",
            "IPPROTO_SCTP",
            "IPPROTO_DCCP",
            "IPPROTO_UDPLITE",
            "IPPROTO_RAW",
            "115",
            "0x100000084",
        ] {
            attacks.push(Attack::filtered(
                &format!("socket {family} 1 {protocol}"),
                &["EPROTONOSUPPORT"],
            ));
        }
        // SOCK_SEQPACKET and SOCK_DCCP name one without its number; SOCK_CLOEXEC
        // beside them changes nothing.
        for kind in ["5", "6", "0x80006"] {
            attacks.push(Attack::filtered(
                &format!("socket {family} {kind} 0"),
                &["EPROTONOSUPPORT"],
            ));
        }
        // SOCK_PACKET, which the kernel turns into AF_PACKET.
        attacks.push(Attack::filtered(
            &format!("socket {family} 10 0"),
            &["EAFNOSUPPORT"],
        ));
    }
    assert_denied(&workspace, workspace.jail(), &attacks);
    let used = [
        "each",
        "filtered socket 2 1 0",
        "filtered socket 2 1 IPPROTO_TCP",
        "filtered socket 10 0x80002 17",
        "filtered socket 2 1 IPPROTO_MPTCP",
        "filtered socket 2 2 1",
        "filtered socket 10 2 58",
        // SOCK_SEQPACKET of AF_UNIX.
        "filtered socket 1 5 0",
    ];
    assert_eq!(workspace.jail().run(&used).lines(), ["ok"; 7]);
}

#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    let workspace = Workspace::new();
    let name = unique("groom-ns-abstract");
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a listener");
    let attack = Attack::new(
        format!("connect-abstract {name}"),
        &["ECONNREFUSED", "EPERM"],
    );
    assert_denied(&workspace, workspace.jail(), &[attack]);
}

#[test]
fn a_listening_socket_in_a_given_folder_is_out_of_reach() {
    let workspace = Workspace::with_git();
    let given = workspace.folder("given");
    let in_given = given.join("socket");
    let in_clone = workspace.clone_dir().join("socket");
    let _listeners =
        [&in_given, &in_clone].map(|path| UnixListener::bind(path).expect("a listener"));
    let attacks = || {
        [&in_given, &in_clone].map(|path| {
            let attempt = format!("connect-unix {}", path_str(path));
            Attack::new(attempt, &["ECONNREFUSED", "EACCES", "ENOENT", "EPERM"])
        })
    };
    let jail = || workspace.jail().flag("--ro-file", &given);
    assert_denied(&workspace, jail(), &attacks());
    assert_denied(&workspace, jail().writable(), &attacks());
    // Given by its own name, it is refused.
    workspace
        .jail_with_out()
        .flag("--ro-file", &in_given)
        .refused("socket");
}

#[test]
fn a_listening_socket_of_its_own_can_be_reached() {
    // Also by a child: no right of landlock's is needed for it, and none is given.
    let workspace = Workspace::new();
    let script = "import os, socket, sys\n\
        listener = socket.socket(socket.AF_UNIX)\n\
        listener.bind(sys.argv[1])\n\
        listener.listen()\n\
        os.fork() or sys.exit(socket.socket(socket.AF_UNIX).connect(sys.argv[1]))\n\
        listener.accept()\n\
        print(os.waitstatus_to_exitcode(os.wait()[1]))";
    let python = system_program("python3", "python3");
    for place in [workspace.out_dir().join("socket"), "/tmp/socket".into()] {
        let command = [&python, "-c", script, path_str(&place)];
        let run = workspace.jail_with_out().run_program(&command);
        assert_eq!(run.outcome(), "0", "{}", place.display());
    }
}

#[test]
fn the_hosts_services_are_absent() {
    let workspace = Workspace::new();
    let sockets = [
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/dbus/system_bus_socket",
        "/run/nscd/socket",
        "/var/run/nscd/socket",
        "/run/systemd/resolve/io.systemd.Resolve",
        "/run/systemd/journal/socket",
        "/run/containerd/containerd.sock",
    ];
    // Most hosts have few of them: the listener stands in for those.
    let path = workspace.path("socket");
    let _listener = UnixListener::bind(&path).expect("a listener");
    let control = format!("connect-unix {}", path_str(&path));
    let attacks = sockets
        .map(|path| Attack::new(format!("connect-unix {path}"), &["ENOENT"]).control(&control));
    assert_denied(&workspace, workspace.jail(), &attacks);
}
