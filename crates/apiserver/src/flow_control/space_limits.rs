//! The limits of each space: those of the server, the defaults for tenants, and what a tenant's
//! object overrides.

use insula_core::Space;
use insula_kinds::quantity::{Format, Quantity};
use serde_json::{Map, Value};

use super::limits::Limits;
use super::space_overrides::SpaceOverrides;

/// What is limited for each space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedResource {
    /// Requests per second on average, weighted by their work.
    RequestsPerSecond,
    /// Requests that may exceed that average at once.
    Burst,
    /// Concurrent reads of few objects.
    Reads,
    /// Concurrent reads of many objects, and large responses being sent.
    HeavyReads,
    /// Concurrent writes.
    Writes,
    /// Bytes of request bodies that are being received or worked on.
    RequestBytes,
    /// Open watches.
    Watches,
    /// Open connections.
    Connections,
    /// Bytes of responses that clients have yet to take.
    UnsentBytes,
}

/// The number of limited resources.
const COUNT: usize = LimitedResource::ALL.len();

/// The bytes that one seat of the pools of bodies and of decoded objects stands for.
pub const SEAT_BYTES: u64 = 64 << 10;

impl LimitedResource {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::RequestsPerSecond,
        Self::Burst,
        Self::Reads,
        Self::HeavyReads,
        Self::Writes,
        Self::RequestBytes,
        Self::Watches,
        Self::Connections,
        Self::UnsentBytes,
    ];

    /// Returns its field in a tenant's spec.
    pub const fn field(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requestsPerSecond",
            Self::Burst => "burst",
            Self::Reads => "reads",
            Self::HeavyReads => "heavyReads",
            Self::Writes => "writes",
            Self::RequestBytes => "requestBytes",
            Self::Watches => "watches",
            Self::Connections => "connections",
            Self::UnsentBytes => "unsentBytes",
        }
    }

    /// Whether it is counted in bytes.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::RequestBytes | Self::UnsentBytes)
    }
}

/// Limits that a tenant's object or the server's defaults set. A missing one is that of the level
/// above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits([Option<u64>; COUNT]);

impl TenantLimits {
    /// Reads limits in the form of a tenant's spec.
    pub fn parse(limits: &Value) -> Self {
        Self(LimitedResource::ALL.map(|resource| {
            let amount = match limits.get(resource.field())? {
                Value::Number(number) => number.as_i64()?,
                Value::String(text) => text.parse::<Quantity>().ok()?.value(),
                _ => return None,
            };
            u64::try_from(amount).ok()
        }))
    }

    /// Sets one limit.
    #[must_use]
    pub const fn with(mut self, resource: LimitedResource, limit: u64) -> Self {
        self.0[resource as usize] = Some(limit);
        self
    }
}

/// All limits of one space; [`u64::MAX`] is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceLimits([u64; COUNT]);

impl SpaceLimits {
    /// Returns the limits that every space has.
    fn of_server(limits: &Limits) -> Self {
        Self(LimitedResource::ALL.map(|resource| match resource {
            LimitedResource::RequestsPerSecond | LimitedResource::Burst => u64::MAX,
            LimitedResource::Reads => limits.reads.each.into(),
            LimitedResource::HeavyReads => limits.heavy.each.into(),
            LimitedResource::Writes => limits.writes.each.into(),
            LimitedResource::RequestBytes => u64::from(limits.bodies.each) * SEAT_BYTES,
            LimitedResource::Watches => limits.watches.each.into(),
            LimitedResource::Connections => limits.connections.each.into(),
            LimitedResource::UnsentBytes => limits.unsent.each as u64,
        }))
    }

    fn with(self, overrides: &TenantLimits) -> Self {
        Self(std::array::from_fn(|place| {
            overrides.0[place].unwrap_or(self.0[place])
        }))
    }

    /// Returns one limit.
    pub const fn get(&self, resource: LimitedResource) -> u64 {
        self.0[resource as usize]
    }

    /// Returns the limits in the form of a tenant's status.
    pub fn value(&self) -> Value {
        let limits = LimitedResource::ALL.into_iter();
        let limits = limits.map(|resource| (resource, self.get(resource)));
        let limits = limits.filter(|(_, limit)| *limit != u64::MAX);
        let fields = limits.map(|(resource, limit)| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let limit = match resource.is_bytes() {
                true => Quantity::new(limit, Format::Binary).to_string().into(),
                false => limit.into(),
            };
            (resource.field().to_owned(), limit)
        });
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

/// The limits of all spaces. Only tenants with overrides have an entry.
#[derive(Debug)]
pub struct LimitTable {
    system: SpaceLimits,
    tenants: SpaceLimits,
    overrides: SpaceOverrides<SpaceLimits>,
}

impl LimitTable {
    /// Creates a table without overrides.
    pub fn new(limits: &Limits) -> Self {
        let system = SpaceLimits::of_server(limits);
        Self {
            system,
            tenants: system.with(&limits.tenants),
            overrides: SpaceOverrides::default(),
        }
    }

    /// Returns the limits of a space.
    pub fn of(&self, space: &Space) -> SpaceLimits {
        if space.is_system() {
            return self.system;
        }
        self.overrides.get(space).unwrap_or(self.tenants)
    }

    /// Returns one limit of a space.
    pub fn get(&self, space: &Space, resource: LimitedResource) -> u64 {
        self.of(space).get(resource)
    }

    /// Returns a limit of a space that is counted in seats.
    pub fn seats(&self, space: &Space, resource: LimitedResource) -> u32 {
        let limit = self.get(space, resource);
        let seats = match resource {
            LimitedResource::RequestBytes => limit / SEAT_BYTES,
            _ => limit,
        };
        u32::try_from(seats).unwrap_or(u32::MAX)
    }

    /// Sets the overrides of a tenant. They apply from the next acquisition on.
    pub fn set(&self, space: &Space, overrides: &TenantLimits) {
        let limits = match *overrides == TenantLimits::default() {
            true => None,
            false => Some(self.tenants.with(overrides)),
        };
        self.overrides.set(space, limits);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overrides_apply_to_their_tenant_and_defaults_to_all_others() {
        let defaults = json!({"watches": 7, "requestsPerSecond": 100, "unsentBytes": "1Mi"});
        let table = LimitTable::new(&Limits {
            tenants: TenantLimits::parse(&defaults),
            ..Limits::default()
        });
        let [one, other] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        let watches = |space: &Space| table.get(space, LimitedResource::Watches);
        let overrides = TenantLimits::parse(&json!({"watches": 9, "requestBytes": "1Mi"}));
        table.set(&one, &overrides);
        assert_eq!(
            [&one, &other, &Space::System].map(watches),
            [9, 7, 10_000],
            "the system has the limits of the server"
        );
        assert_eq!(table.seats(&one, LimitedResource::RequestBytes), 16);
        assert_eq!(
            table.get(&Space::System, LimitedResource::RequestsPerSecond),
            u64::MAX
        );
        let shown = table.of(&one).value();
        assert_eq!(
            (&shown["watches"], &shown["unsentBytes"], &shown["burst"]),
            (&json!(9), &json!("1Mi"), &Value::Null)
        );
        table.set(&one, &TenantLimits::default());
        assert_eq!(watches(&one), 7);
    }
}
