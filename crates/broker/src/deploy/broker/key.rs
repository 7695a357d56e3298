//! The key that the clusters share: kept where there is one, for a new one cuts off every
//! cluster that has joined.

use k8s_openapi::api::core::v1::Secret;

use super::BrokerSettings;
use super::place::Place;
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::psk;
use crate::report::Report;

/// Where the key is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Psk {
    /// Out of the file that was named.
    Given,
    /// Out of the file that is replaced.
    Kept,
    /// It is new.
    Generated,
}

/// The key: of the file that was named; else of the one that is replaced, if it is of the
/// same broker; else a new one.
pub(super) fn choose(
    settings: &BrokerSettings,
    given: Option<&BrokerInfo>,
    place: &Place,
    report: &dyn Report,
) -> Result<(Secret, Psk), Error> {
    if let Some(key) = given.and_then(of) {
        report.done("Reusing the IPsec PSK of the broker info file");
        return Ok((key, Psk::Given));
    }
    if let Some(key) = of_replaced(settings, place, report)? {
        let file = &settings.output;
        report.warn(&format!(
            "Reusing the IPsec PSK of {file:?}, which is of the same broker: a new one would cut off the clusters that have joined"
        ));
        return Ok((key, Psk::Kept));
    }
    report.done("A new IPsec PSK will be generated");
    Ok((psk::generate(), Psk::Generated))
}

/// The key of the file that is replaced. Nothing else is taken out of it.
fn of_replaced(
    settings: &BrokerSettings,
    place: &Place,
    report: &dyn Report,
) -> Result<Option<Secret>, Error> {
    let file = settings.output.as_path();
    // A file that is not there has no key. One that cannot even be looked at may have.
    match file.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) => {
            return Err(Error::invalid(format!("cannot look at {file:?}: {error}")));
        }
    }
    let found = match BrokerInfo::read(file) {
        Ok(found) => found,
        Err(error @ crate::info::Error::Read { .. }) => return Err(error.into()),
        Err(error) => {
            report.warn(&format!("{file:?} is replaced, and it is kept: {error}"));
            return Ok(None);
        }
    };
    let is_same = place.is_of(&found);
    if !is_same && of(&found).is_some() {
        report.warn(&format!(
            "{file:?} is replaced, and it is kept: it is of another broker"
        ));
    }
    Ok(of(&found).filter(|_| is_same))
}

fn of(info: &BrokerInfo) -> Option<Secret> {
    let secret = info.ipsec_psk.as_ref()?;
    psk::of(secret).map(|key| psk::secret(key.to_vec()))
}
