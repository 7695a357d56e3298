//! How an error is retried.

use std::time::Duration;

use http::StatusCode;

use super::ArmError;

/// How a request that failed is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// Soon: the cause ends by itself within seconds.
    Fast,
    /// With a longer backoff: the cause may end by itself.
    Slow,
    /// After the sync period: the request is probably wrong, but such errors were seen to end.
    VerySlow,
    /// When the object changes.
    Never,
}

/// The request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A request to create, update or read a resource.
    CreateOrUpdate,
    /// A request to delete a resource. It is retried for ever, because the object cannot be
    /// deleted before.
    Delete,
}

impl Retry {
    /// Returns the maximum of the exponential backoff; none if another rule decides.
    pub fn max_backoff(self) -> Option<Duration> {
        match self {
            Self::Fast => Some(Duration::from_secs(30)),
            Self::Slow => Some(Duration::from_secs(180)),
            Self::VerySlow | Self::Never => None,
        }
    }
}

/// The codes with a rule of their own.
const CODES: &[(Retry, &[&str])] = &[
    (
        Retry::Fast,
        &[
            "AnotherOperationInProgress",
            "Conflict",
            "CustomKubeletIdentityMissingPermissionError",
            "FailedIdentityOperation",
            "InvalidResourceReference",
            "InvalidSubscriptionRegistrationState",
            "MissingRegistrationForLocation",
            "MissingSubscriptionRegistration",
            "NoRegisteredProviderFound",
            "NotFound",
            "ParentResourceNotFound",
            "PrincipalNotFound",
            "ResourceGroupNotFound",
            "ResourceNotFound",
            "SubscriptionNotRegistered",
        ],
    ),
    (
        Retry::Slow,
        &[
            "AllocationFailed",
            "AuthorizationFailed",
            "LinkedAuthorizationFailed",
            "RequestDisallowedByPolicy",
            "ResourceQuotaExceeded",
        ],
    ),
    (
        Retry::VerySlow,
        &[
            "BadRequest",
            "BadRequestFormat",
            "InvalidParameter",
            "InvalidParameterValue",
            "InvalidResourceGroupLocation",
            "MethodNotAllowed",
            "RegionIsOfferRestricted",
            "ReservedResourceName",
            "ScopeLocked",
            "SkuNotAvailable",
            "SubscriptionNotFound",
        ],
    ),
    (
        Retry::Never,
        &[
            "InvalidGatewaySize",
            "InvalidGatewaySkuProvidedForGatewayVpnType",
            "InvalidRequestContent",
            "InvalidResourceType",
            "InvalidTemplate",
            "InvalidValuesForRequestParameters",
            "K8sVersionNotSupported",
            "LocationRequired",
            "MissingRequiredParameter",
            "PasswordTooLong",
            "PrivateIPAddressInReservedRange",
            "PrivateIPAddressNotInSubnet",
            "PropertyChangeNotAllowed",
            "PublicIpForGatewayIsRequired",
        ],
    ),
];

impl ArmError {
    /// Returns how the request is retried.
    pub fn retry(&self, request: Request) -> Retry {
        let listed = CODES
            .iter()
            .find(|(_, codes)| codes.contains(&self.code.as_str()));
        let retry = match listed {
            Some((retry, _)) => *retry,
            None if self.code.is_empty() => Retry::Slow,
            None if self.status == StatusCode::BAD_REQUEST => Retry::VerySlow,
            None => Retry::Slow,
        };
        match request {
            Request::Delete => retry.min(Retry::Slow),
            Request::CreateOrUpdate => retry,
        }
    }
}
