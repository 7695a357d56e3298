//! How much of everything.

use std::time::Duration;

use super::pool::Bound;

/// Every bound of the server. Each default says where it comes from.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Reads of few objects. They wait for the store's revision at most, and up to three
    /// seconds for one that has not happened yet.
    pub reads: Bound,
    /// Reads of many objects, and large answers on their way.
    pub heavy: Bound,
    /// Writes. They wait for one commit, which takes whatever waits by then.
    pub writes: Bound,
    /// Bodies of requests that are being received or worked on, in units of 64 KiB.
    pub bodies: Bound,
    /// Open watches. Nobody waits for one to end.
    pub watches: Bound,
    /// How long a request waits for a seat.
    pub queue_timeout: Duration,
    /// How long the first 64 KiB of a body may take, and how long it may take to begin.
    pub body_grace: Duration,
    /// How many bytes of a body must come in each second after that.
    pub body_rate: u32,
    /// Connections.
    pub connections: Connections,
}

/// Bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// All that are open.
    pub total: usize,
    /// Those in the middle of a TLS handshake.
    pub handshakes: usize,
    /// Those on which nobody has proved yet who they are.
    pub unauthenticated: usize,
    /// Those of one space.
    pub each: u32,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long the headers of a request may take on HTTP/1, the wait for them included.
    pub headers: Duration,
    /// How long a connection of a stranger may be without a request.
    pub unauthenticated_timeout: Duration,
    /// How long one of somebody who is known may be.
    pub idle: Duration,
    /// How long an answer may lie here because its reader takes nothing of it.
    pub stalled: Duration,
    /// The most bytes of a request's headers.
    pub header_bytes: u32,
    /// The most headers of a request on HTTP/1; on HTTP/2 the bytes bound them.
    pub header_count: usize,
    /// The most requests at once on one connection of HTTP/2.
    pub streams: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        // One core is for everybody else, if there are two.
        let heavy = cores.saturating_sub(1).max(1);
        Self {
            // Each holds a few kilobytes while it waits. Half of all, so that it takes two
            // tenants who wait for what never comes to hold up a third, for three seconds.
            reads: bound(4096, 2048, 1024),
            // In turn, 256 lists of 10,000 objects take four seconds.
            heavy: bound(heavy, heavy, 256),
            // A commit of 128 writes every two milliseconds is more than two cores prepare.
            writes: bound(256, 128, 1024),
            // 256 MiB, of which one space has 64 MiB: 21 bodies of the largest size at once,
            // or a thousand small ones.
            bodies: bound(4096, 1024, 256),
            // A watch costs some kilobytes, and what its client does not read.
            watches: bound(50_000, 10_000, 0),
            queue_timeout: Duration::from_secs(10),
            body_grace: Duration::from_secs(10),
            // The largest body, 3 MiB, ends within the minute that a request has.
            body_rate: 64 << 10,
            connections: Connections::default(),
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            // Each costs about 50 KiB with its buffers: a gigabyte.
            total: 20_000,
            // A handshake is a millisecond of work and a round trip or two. Whoever comes
            // when so many are under way takes the place of the one that has taken longest.
            handshakes: 256,
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
            // What Go's servers allow, which is what clients of Kubernetes are used to.
            streams: 250,
        }
    }
}

const fn bound(total: u32, each: u32, queue: usize) -> Bound {
    Bound { total, each, queue }
}
