//! Requests to web servers on behalf of somebody else: never to this host, nor to services of its network or its cloud that take
//! everyone on it for a friend.
//!
//! PUBLIC-1: an address is judged where it is used: as it stands in a URL, as a name resolves to it, and as a redirection names it.
//! PUBLIC-2: a proxy would look names up itself, so there is none.
//! PUBLIC-3: this host's addresses are those that the system lets a socket listen at, whatever its interfaces are just then.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use object_store::client::{ClientOptions, HttpClient, HttpConnector};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::FileAccess;

const CONNECTING: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(10);
/// How often a server may send a request on.
const REDIRECTIONS: usize = 5;

/// Whether requests for others may go to an address.
fn is_allowed(address: IpAddr) -> bool {
    let stands_for = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => embedded(v6).map(IpAddr::V4),
    };
    is_public(address) && !is_own(address) && !stands_for.is_some_and(is_own)
}

/// Whether an address is one of this host's (PUBLIC-3). If the system cannot tell, it is taken for one.
fn is_own(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::AddrNotAvailable => false,
        // A system without IPv6 has no such addresses.
        Err(_) => address.is_ipv4() || UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
    }
}

/// Whether an address is of no host or network that is closed to others by its kind.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    // What clouds tell their machines, keys included, is at 169.254.169.254 and at these.
    let of_clouds = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
    a != 0 && a != 127 && (a, b) != (169, 254) && !v4.is_multicast() && a < 240 && !of_clouds.contains(&v4)
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let of_a_cloud = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);
    let link_local = v6.segments()[0] & 0xffc0 == 0xfe80;
    // Addresses of one site were fec0::/10.
    let site_local = v6.segments()[0] & 0xffc0 == 0xfec0;
    !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast() && !link_local && !site_local && v6 != of_a_cloud
}

/// The IPv4 address that an IPv6 address stands for.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        // Mapped, translated, of NAT64, and compatible ones but `::` and `::1`.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Whether a URL names a host that requests may go to, as far as it shows. What a name means shows when it is looked up.
pub(super) fn names_public_host(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(v4)) => is_allowed(v4.into()),
        Some(url::Host::Ipv6(v6)) => is_allowed(v6.into()),
        Some(url::Host::Domain(name)) => !name.is_empty(),
        None => false,
    }
}

/// A request that is not made: it would go where requests for others may not go.
#[derive(Debug, thiserror::Error)]
#[error("the worker does not open {0} for other users")]
pub(super) struct NotPublic(String);

/// Looks names up, and leaves out addresses that requests may not go to.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|at| is_allowed(at.ip())).collect();
            match public.is_empty() {
                true => Err(NotPublic(name.as_str().to_owned()).into()),
                false => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

/// Makes clients that ask only public addresses, and follow a server only to addresses that are allowed.
#[derive(Debug)]
pub(super) struct PublicConnector(pub(super) FileAccess);

impl HttpConnector for PublicConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let access = self.0.clone();
        let redirections = reqwest::redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTIONS {
                return attempt.error("the server redirected the request too many times");
            }
            match access.allows_address(attempt.url()) && names_public_host(attempt.url()) {
                true => attempt.follow(),
                false => {
                    let refused = NotPublic(attempt.url().to_string());
                    attempt.error(refused)
                }
            }
        });
        let client = reqwest::Client::builder()
            .redirect(redirections)
            .dns_resolver(Arc::new(PublicOnly))
            .no_proxy()
            .http1_only()
            .connect_timeout(CONNECTING)
            .read_timeout(SILENCE)
            .build();
        let client = client.map_err(|e| object_store::Error::Generic { store: "HTTP", source: Box::new(e) })?;
        Ok(HttpClient::new(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_host_and_its_cloud_are_not_public() {
        for private in [
            "127.0.0.1",
            "127.255.1.2",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in
            ["93.184.216.34", "10.0.0.7", "192.168.1.5", "2606:2800:220:1::1", "::ffff:93.184.216.34", "fd12::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn addresses_of_this_hosts_interfaces_are_not_asked() {
        // Reserved for examples, so no host has them.
        for foreign in ["192.0.2.1", "198.51.100.7", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(is_allowed(foreign.parse().unwrap()), "{foreign}");
        }
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        // What this host would send from; it sends nothing. Without a network there is no such address.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let IpAddr::V4(own) = socket.local_addr().unwrap().ip() else { panic!("an IPv4 address") };
            for spelled in [IpAddr::V4(own), own.to_ipv6_mapped().into()] {
                assert!(!is_allowed(spelled), "{spelled}");
            }
            let url = url::Url::parse(&format!("http://{own}:8000/x")).unwrap();
            assert!(!names_public_host(&url), "{url}");
        }
    }

    #[test]
    fn spellings_of_an_address_are_that_address() {
        for spelled in ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:7f00:1]", "[::1]", "0"] {
            let url = url::Url::parse(&format!("http://{spelled}/x")).unwrap();
            assert!(!names_public_host(&url), "{spelled}");
        }
    }

    #[test]
    fn a_name_that_means_this_host_is_not_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(PublicOnly.resolve("localhost".parse().unwrap()));
        assert!(found.is_err_and(|e| e.to_string().contains("localhost")));
    }
}
