//! Promise 5: `lo` and nothing else. Nothing here sends a packet off the machine: a
//! UDP socket that is connected only asks for the route (udp(7)).

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::prove::facts::Facts;
use crate::prove::proof::{Denial, Outcome};

const PATIENCE: Duration = Duration::from_secs(5);

pub(in crate::prove) fn find_an_interface(_: &Facts) -> Outcome {
    let devices = std::fs::read_to_string("/proc/net/dev")?;
    let mut names = devices.lines().filter_map(|line| line.split_once(':'));
    if names.any(|(name, _)| name.trim() != "lo") {
        return Ok(());
    }
    Err(Denial::says("lo"))
}

/// An address that is nobody's (RFC 5737, TEST-NET-1).
pub(in crate::prove) fn find_a_route(_: &Facts) -> Outcome {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?)
}

pub(in crate::prove) fn connect_to_the_hosts_loopback(facts: &Facts) -> Outcome {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, facts.tcp));
    Ok(TcpStream::connect_timeout(&address, PATIENCE).map(drop)?)
}

pub(in crate::prove) fn connect_to_an_abstract_socket(facts: &Facts) -> Outcome {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&facts.abstract_socket)?;
    Ok(UnixStream::connect_addr(&address).map(drop)?)
}

/// It lies in a folder that the jail is given.
pub(in crate::prove) fn connect_to_a_given_socket(facts: &Facts) -> Outcome {
    Ok(UnixStream::connect(facts.given().join("socket")).map(drop)?)
}
