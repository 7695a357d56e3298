//! Tasks, and their effects when they end.

use super::element::Element;
use super::fault::Fault;
use super::value::{Data, Reference, Value};

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub method: String,
    pub entity: Reference,
    pub account: String,
    pub state: State,
    began: String,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Running; the effect follows at the end.
    Running(Box<Effect>),
    Done(Option<Reference>),
    Failed(Fault),
}

/// The effect of a task.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Clone {
        folder: String,
        name: String,
        spec: Element,
    },
    Configure(Element),
    PowerOn,
    PowerOff,
    Destroy,
    Fail(Fault),
}

impl Task {
    pub fn new(method: &str, entity: Reference, account: &str, effect: Effect) -> Self {
        Self {
            method: method.to_owned(),
            entity,
            account: account.to_owned(),
            state: State::Running(Box::new(effect)),
            began: jiff::Timestamp::now().to_string(),
        }
    }

    /// Whether it will create an object with this name in this folder.
    pub fn reserves(&self, in_folder: &str, named: &str) -> bool {
        match &self.state {
            State::Running(effect) => match &**effect {
                Effect::Clone { folder, name, .. } => folder == in_folder && name == named,
                _ => false,
            },
            _ => false,
        }
    }

    pub fn info(&self, id: &str) -> Data {
        let (state, error, result) = match &self.state {
            State::Running(_) => ("running", None, None),
            State::Done(result) => ("success", None, result.clone()),
            State::Failed(fault) => {
                let error = Value::Raw("LocalizedMethodFault", fault.localized());
                ("error", Some(error), None)
            }
        };
        let running = state == "running";
        let time = |text: &str| Value::text("xsd:dateTime", text);
        let result = result.map(Value::AnyObject);
        let why = Data::new("TaskReasonUser").with("userName", self.account.as_str());
        Data::new("TaskInfo")
            .with("key", id)
            .with("task", Reference::new("Task", id))
            .with("name", self.method.as_str())
            .with("descriptionId", format!("VirtualMachine.{}", self.method))
            .with("entity", self.entity.clone())
            .with("state", Value::text("TaskInfoState", state))
            .with("cancelled", false)
            .with("cancelable", false)
            .maybe("error", error)
            .maybe("result", result)
            .maybe("progress", running.then_some(50))
            .with("reason", why)
            .with("queueTime", time(&self.began))
            .with("startTime", time(&self.began))
            .maybe("completeTime", (!running).then(|| time(&self.began)))
            .with("eventChainId", 1)
    }
}
