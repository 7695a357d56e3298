//! The limits of the server.

use std::time::Duration;

use insula_dialer::Cidr;

use super::pool::Bound;
use super::space_limits::TenantLimits;

/// Every limit of the server. The defaults give their reasons.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Reads of few objects. They wait only for the store's revision, and up to three seconds
    /// for a future one.
    pub reads: Bound,
    /// Reads of many objects, and large responses being sent.
    pub heavy: Bound,
    /// Writes. They wait for one commit, which includes all writes that wait by then.
    pub writes: Bound,
    /// Bodies of requests that are being received or worked on, in units of 64 KiB.
    pub bodies: Bound,
    /// Decoded objects of writes, in units of 64 KiB.
    pub decoded: Bound,
    /// Open watches. A new watch does not wait for another to end.
    pub watches: Bound,
    /// How long a request waits for a seat.
    pub queue_timeout: Duration,
    /// How long a request body may take to start, and its first 64 KiB to arrive.
    pub body_grace: Duration,
    /// The least bytes per second of a body after that.
    pub body_rate: u32,
    /// The limits of responses that clients have yet to take.
    pub unsent: Unsent,
    /// The limits of connections.
    pub connections: Connections,
    /// The limits of one tenant that differ from those of one space, and the rate of its requests,
    /// which is not limited by default.
    pub tenants: TenantLimits,
    /// The refusals a second from which connections of a tenant beyond its rate are served in turns
    /// with pauses.
    pub refusals_per_second: u32,
    /// Addresses that stand for many clients, such as a load balancer's.
    pub shared_addresses: Vec<Cidr>,
}

/// The limits of responses that clients have yet to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The most bytes of all spaces.
    pub total: usize,
    /// The most bytes of one space.
    pub each: usize,
    /// The least bytes per second that a client must take, beyond the first minute.
    pub rate: u32,
}

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Open connections.
    pub total: usize,
    /// Connections in a TLS handshake.
    pub handshakes: usize,
    /// Handshakes that are worked on at once.
    pub handshake_turns: u32,
    /// Connections without an authenticated request.
    pub unauthenticated: usize,
    /// Connections of one space.
    pub each: u32,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long the headers of a request may take on HTTP/1, the wait for them included.
    pub headers: Duration,
    /// How long an unauthenticated connection may be idle.
    pub unauthenticated_timeout: Duration,
    /// How long an authenticated connection may be idle.
    pub idle: Duration,
    /// How long a response may wait for a client that does not read, or a connection for a
    /// socket that takes nothing.
    pub stalled: Duration,
    /// The most bytes of a request's headers.
    pub header_bytes: u32,
    /// The most headers of a request on HTTP/1; on HTTP/2 the bytes bound them.
    pub header_count: usize,
    /// The most concurrent requests on one HTTP/2 connection.
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let heavy = cores_but_one();
        Self {
            // Each holds a few kilobytes while it waits. One space gets half, so that only two
            // tenants waiting for future revisions can delay a third, for three seconds.
            reads: bound(4096, 2048, 1024),
            // In turn, 256 lists of 10,000 objects take four seconds.
            heavy: bound(heavy, heavy, 256),
            // A commit of 128 writes every two milliseconds is more than two cores prepare.
            writes: bound(256, 128, 1024),
            // 256 MiB, of which one space has 64 MiB: 21 bodies of the largest size at once,
            // or a thousand small ones.
            bodies: bound(4096, 1024, 256),
            // 256 MiB, of which one space has 32 MiB: one definition of the largest size at a
            // time, or fifty objects of 10,000 members. A write above that waits for all of its
            // space's seats.
            decoded: bound(4096, 512, 256),
            // A watch costs some kilobytes, plus the events that its client has yet to read.
            watches: bound(50_000, 10_000, 0),
            queue_timeout: Duration::from_secs(10),
            body_grace: Duration::from_secs(10),
            // The largest body, 3 MiB, ends within the minute that a request has.
            body_rate: 64 << 10,
            unsent: Unsent::default(),
            connections: Connections::default(),
            tenants: TenantLimits::default(),
            // An answer takes about 25 us.
            refusals_per_second: 1_000,
            shared_addresses: Vec::new(),
        }
    }
}

impl Default for Unsent {
    fn default() -> Self {
        Self {
            // As much as for the bodies of requests. A plain list is produced while it is read
            // and holds 128 KiB, so this is for compressed lists, tables and protobuf.
            total: 256 << 20,
            each: 64 << 20,
            // As slow as a request's body may be.
            rate: 64 << 10,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            // Each costs about 50 KiB with its buffers: a gigabyte.
            total: 20_000,
            // A handshake is a millisecond of work and a round trip or two, and holds about
            // ten kilobytes. When so many are under way, the address with most loses one.
            handshakes: 1_000,
            handshake_turns: cores_but_one(),
            unauthenticated: 1_000,
            // A node, a controller or a person has one or two.
            each: 2_000,
            handshake: Duration::from_secs(10),
            // On HTTP/1 this is also how long a client may keep a connection for later.
            headers: Duration::from_secs(30),
            unauthenticated_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            stalled: Duration::from_secs(60),
            // Kubernetes takes a megabyte; a token is 2 KiB, and proxies add little.
            header_bytes: 64 << 10,
            header_count: 100,
            // The limit of Go's servers, which Kubernetes clients expect.
            streams: 250,
        }
    }
}

/// Returns how much CPU-bound work may run at once: one core is left for other work, if there are
/// two.
pub(super) fn cores_but_one() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    cores.saturating_sub(1).max(1)
}

const fn bound(total: u32, each: u32, queue: usize) -> Bound {
    Bound { total, each, queue }
}
