//! The required order of elements in a request. A vCenter refuses every other.

use super::element::Element;

/// Checks the order of all elements of a request; returns the first violation.
pub(super) fn check(method: &Element) -> Result<(), String> {
    let Some(parameters) = parameters(&method.name) else {
        return Ok(());
    };
    in_order(method, parameters)?;
    inside(method)
}

fn inside(element: &Element) -> Result<(), String> {
    for child in &element.children {
        let of = child.of.as_deref().or_else(|| declared(&child.name));
        let of = of.filter(|_| !child.children.is_empty());
        if let Some(fields) = of.and_then(fields) {
            in_order(child, &fields)?;
        } else if of.is_some_and(|of| !OPAQUE.contains(&of)) {
            let of = of.unwrap_or_default();
            return Err(format!("{:?} is of the unknown type {of:?}", child.name));
        }
        inside(child)?;
    }
    Ok(())
}

fn in_order(element: &Element, wanted: &[&str]) -> Result<(), String> {
    let mut from = 0;
    for child in &element.children {
        let place = wanted[from..].iter().position(|name| *name == child.name);
        let Some(place) = place else {
            let (name, of) = (&child.name, &element.name);
            let known = wanted.contains(&name.as_str());
            let why = if known { "out of order" } else { "unknown" };
            return Err(format!("{name:?} is {why} in {of:?}"));
        };
        from += place;
    }
    Ok(())
}

/// Types with unchecked content.
const OPAQUE: &[&str] = &["CustomizationSpec"];

#[rustfmt::skip]
fn parameters(method: &str) -> Option<&'static [&'static str]> {
    Some(match method {
        "RetrieveServiceContent" | "Logout" | "ShutdownGuest" | "Destroy_Task" | "CurrentTime"
        | "DestroyView" | "DestroyPropertyCollector" => &["_this"],
        "Login" => &["_this", "userName", "password", "locale"],
        "TerminateSession" => &["_this", "sessionId"],
        "SessionIsActive" => &["_this", "sessionID", "userName"],
        "RetrievePropertiesEx" => &["_this", "specSet", "options"],
        "ContinueRetrievePropertiesEx" | "CancelRetrievePropertiesEx" => &["_this", "token"],
        "FindByInventoryPath" => &["_this", "inventoryPath"],
        "FindChild" => &["_this", "entity", "name"],
        "FindByUuid" | "FindAllByUuid" => &["_this", "datacenter", "uuid", "vmSearch", "instanceUuid"],
        "CloneVM_Task" => &["_this", "folder", "name", "spec"],
        "ReconfigVM_Task" => &["_this", "spec"],
        "PowerOnVM_Task" => &["_this", "host"],
        "PowerOffVM_Task" => &["_this"],
        "CreateContainerView" => &["_this", "container", "type", "recursive"],
        _ => return None,
    })
}

/// The type of an element where its name determines it. `spec` is a clone's or a configuration's,
/// distinguished by its children.
fn declared(name: &str) -> Option<&'static str> {
    Some(match name {
        "specSet" => "PropertyFilterSpec",
        "propSet" => "PropertySpec",
        "objectSet" => "ObjectSpec",
        "selectSet" => "SelectionSpec",
        "options" => "RetrieveOptions",
        "spec" => "AnySpec",
        "location" => "VirtualMachineRelocateSpec",
        "config" => "VirtualMachineConfigSpec",
        "deviceChange" => "VirtualDeviceConfigSpec",
        "extraConfig" => "OptionValue",
        "flags" => "VirtualMachineFlagInfo",
        "disk" => "VirtualMachineRelocateSpecDiskLocator",
        "connectable" => "VirtualDeviceConnectInfo",
        "port" => "DistributedVirtualSwitchPortConnection",
        "deviceInfo" => "Description",
        _ => return None,
    })
}

#[rustfmt::skip]
fn fields(of: &str) -> Option<Vec<&'static str>> {
    let fields: &[&str] = match of {
        "PropertyFilterSpec" => &["propSet", "objectSet", "reportMissingObjectsInResults"],
        "PropertySpec" => &["type", "all", "pathSet"],
        "ObjectSpec" => &["obj", "skip", "selectSet"],
        "SelectionSpec" => &["name"],
        "TraversalSpec" => &["name", "type", "path", "skip", "selectSet"],
        "RetrieveOptions" => &["maxObjects"],
        // Either a clone's or a configuration's: they have no name in common.
        "AnySpec" => return Some([CLONE, CONFIG].concat()),
        "VirtualMachineCloneSpec" => CLONE,
        "VirtualMachineConfigSpec" => CONFIG,
        "VirtualMachineRelocateSpec" => &["service", "folder", "datastore", "diskMoveType", "pool",
            "host", "disk", "transform", "deviceChange", "profile", "cryptoSpec"],
        "VirtualMachineRelocateSpecDiskLocator" => &["diskId", "datastore", "diskMoveType",
            "diskBackingInfo", "profile", "backing", "filterSpec"],
        "VirtualDeviceConfigSpec" => &["operation", "fileOperation", "device", "profile",
            "backing", "filterSpec"],
        "OptionValue" => &["key", "value"],
        "Description" => &["label", "summary"],
        "VirtualMachineFlagInfo" => &["disableAcceleration", "enableLogging", "useToe",
            "runWithDebugInfo", "monitorType", "htSharing", "snapshotDisabled", "snapshotLocked",
            "diskUuidEnabled", "virtualMmuUsage", "virtualExecUsage", "snapshotPowerOffBehavior",
            "recordReplayEnabled", "faultToleranceType", "cbrcCacheEnabled", "vvtdEnabled",
            "vbsEnabled"],
        "VirtualDeviceConnectInfo" => &["migrateConnect", "startConnected", "allowGuestControl",
            "connected", "status"],
        "DistributedVirtualSwitchPortConnection" => &["switchUuid", "portgroupKey", "portKey",
            "connectionCookie"],
        "VirtualEthernetCardNetworkBackingInfo" => &["deviceName", "useAutoDetect", "network",
            "inPassthroughMode"],
        "VirtualEthernetCardDistributedVirtualPortBackingInfo" => &["port"],
        "VirtualEthernetCardOpaqueNetworkBackingInfo" => &["opaqueNetworkId", "opaqueNetworkType"],
        "VirtualDiskFlatVer2BackingInfo" => &["fileName", "datastore", "backingObjectId",
            "diskMode", "split", "writeThrough", "thinProvisioned", "eagerlyScrub", "uuid",
            "contentId", "changeId", "parent"],
        "VirtualDevice" => DEVICE,
        "VirtualDisk" => return Some([DEVICE, &["capacityInKB", "capacityInBytes", "shares",
            "storageIOAllocation"]].concat()),
        "VirtualVmxnet3" | "VirtualEthernetCard" | "VirtualE1000" | "VirtualE1000e"
        | "VirtualVmxnet" => return Some([DEVICE, &["addressType", "macAddress",
            "wakeOnLanEnabled", "resourceAllocation", "externalId",
            "uptCompatibilityEnabled"]].concat()),
        _ => return None,
    };
    Some(fields.to_vec())
}

const CLONE: &[&str] = &[
    "location",
    "template",
    "config",
    "customization",
    "powerOn",
    "snapshot",
    "memory",
];

const DEVICE: &[&str] = &[
    "key",
    "deviceInfo",
    "backing",
    "connectable",
    "slotInfo",
    "controllerKey",
    "unitNumber",
    "numaNode",
];

#[rustfmt::skip]
const CONFIG: &[&str] = &[
    "changeVersion", "name", "version", "createDate", "uuid", "instanceUuid",
    "npivNodeWorldWideName", "npivPortWorldWideName", "npivWorldWideNameType",
    "npivDesiredNodeWwns", "npivDesiredPortWwns", "npivTemporaryDisabled", "npivOnNonRdmDisks",
    "npivWorldWideNameOp", "locationId", "guestId", "alternateGuestName", "annotation", "files",
    "tools", "flags", "consolePreferences", "powerOpInfo", "rebootPowerOff", "numCPUs",
    "vcpuConfig", "numCoresPerSocket", "memoryMB", "memoryHotAddEnabled", "cpuHotAddEnabled",
    "cpuHotRemoveEnabled", "virtualICH7MPresent", "virtualSMCPresent", "deviceChange",
    "cpuAllocation", "memoryAllocation", "latencySensitivity", "cpuAffinity", "memoryAffinity",
    "networkShaper", "cpuFeatureMask", "extraConfig", "swapPlacement", "bootOptions",
    "vAppConfig", "ftInfo", "repConfig", "vAppConfigRemoved", "vAssertsEnabled",
    "changeTrackingEnabled", "firmware", "maxMksConnections", "guestAutoLockEnabled", "managedBy",
    "memoryReservationLockedToMax", "nestedHVEnabled", "vPMCEnabled",
    "scheduledHardwareUpgradeInfo", "vmProfile",
];
