//! The turns of the conversation that the chat template renders.

use super::{INSTRUCTION, SYSTEM_TEXT, SYSTEM_TEXT_MESSAGES, isolated_content, user_content};
use crate::error::{Error, ErrorKind, quoted};

/// One chat message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text, verbatim.
    pub content: String,
}

impl Message {
    /// Makes a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// `[system, user]`, or one user turn where the template has no system role.
fn system_and_user(user: String, supports_system: bool) -> Vec<Message> {
    if supports_system {
        vec![Message::new("system", SYSTEM_TEXT), Message::new("user", user)]
    } else {
        vec![Message::new("user", [SYSTEM_TEXT, "\n\n", &user].concat())]
    }
}

/// The turns for a context under the schema.
pub(crate) fn context_turns(
    block: &str,
    context: &str,
    key: Option<&[u8]>,
    supports_system: bool,
) -> Result<Vec<Message>, Error> {
    Ok(system_and_user(user_content(block, context, key)?, supports_system))
}

/// The turns for one question after its context.
pub(crate) fn isolated_turns(
    block: &str,
    context: &str,
    key: Option<&[u8]>,
    supports_system: bool,
) -> Result<Vec<Message>, Error> {
    Ok(system_and_user(isolated_content(block, context, key)?, supports_system))
}

/// The library's system turn, then the caller's messages; merged into the first user turn where there is no system role.
pub(crate) fn message_turns(block: &str, messages: &[Message], supports_system: bool) -> Result<Vec<Message>, Error> {
    let (system, turns) = split(messages)?;
    let mut head = [SYSTEM_TEXT_MESSAGES, "\n\n", INSTRUCTION, "\n\n", block].concat();
    if let Some(system) = system {
        head.push_str("\n\n---\n\n");
        head.push_str(&system.content);
    }
    let mut out = Vec::with_capacity(turns.len() + 1);
    if supports_system {
        out.push(Message::new("system", head));
        out.extend_from_slice(turns);
    } else {
        out.push(Message::new("user", [&head, "\n\n", &turns[0].content].concat()));
        out.extend_from_slice(&turns[1..]);
    }
    Ok(out)
}

/// The optional system message and the turns, which must be user, assistant, …, user.
fn split(messages: &[Message]) -> Result<(Option<&Message>, &[Message]), Error> {
    let (system, turns) = match messages {
        [first, rest @ ..] if first.role == "system" => (Some(first), rest),
        all => (None, all),
    };
    let skipped = usize::from(system.is_some());
    for (index, message) in turns.iter().enumerate() {
        let expected = if index % 2 == 0 { "user" } else { "assistant" };
        if message.role != expected {
            return Err(Error::new(
                ErrorKind::MessageRole,
                format!("messages[{}].role", index + skipped),
                format!(
                    "the role is {}, expected {expected:?}: an optional system message comes first, then user and assistant in turn, starting and ending with user",
                    quoted(&message.role)
                ),
            ));
        }
    }
    match turns.len() {
        0 => Err(Error::new(
            ErrorKind::MessagesEmpty,
            "messages",
            "there is no user message to classify; give at least one",
        )),
        n if n % 2 == 0 => Err(Error::new(
            ErrorKind::MessageRole,
            format!("messages[{}].role", messages.len() - 1),
            "the last message is from the assistant; the messages must end with user",
        )),
        _ => Ok((system, turns)),
    }
}
