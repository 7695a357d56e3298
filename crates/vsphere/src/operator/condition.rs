//! Types and reasons of conditions.

use insula_identity::reason::Reason;

/// Whether the vCenter can be used.
pub(crate) const VCENTER: &str = "VCenterAvailable";

/// Returns a reason as it is written to conditions and Events, in this provider's terms.
pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Unreachable => "VCenterUnreachable",
        Reason::EndpointNotAllowed => "ServerNotAllowed",
        other => other.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_in_provider_terms() {
        assert_eq!(reason(Reason::Unreachable), "VCenterUnreachable");
        assert_eq!(reason(Reason::EndpointNotAllowed), "ServerNotAllowed");
        assert_eq!(reason(Reason::NamespaceNotAllowed), "NamespaceNotAllowed");
    }
}
