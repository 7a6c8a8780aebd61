//! The fence around a context, and the nonce that no line inside it can know.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::INSTRUCTION;
use crate::error::{Error, ErrorKind};

/// Hexadecimal digits of the hash that a nonce shows.
const NONCE_DIGITS: usize = 16;

/// `C` and the first 16 hex digits of the context's SHA-256, or of its HMAC-SHA-256 under `key`.
///
/// ```
/// use jevmlx_core::context_nonce;
/// assert_eq!(context_nonce("The applicant pays late sometimes.", None)?, "C389525abe2404839");
/// # Ok::<(), jevmlx_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NonceKey`] when the key is empty: an empty secret is no secret.
pub fn context_nonce(context: &str, key: Option<&[u8]>) -> Result<String, Error> {
    let digest: [u8; 32] = match key {
        None => Sha256::digest(context).into(),
        Some([]) => {
            return Err(Error::new(
                ErrorKind::NonceKey,
                "",
                "the nonce key is empty; give a secret of at least one byte, or none for the plain nonce",
            ));
        }
        Some(key) => keyed(key, context),
    };
    let mut nonce = String::with_capacity(1 + NONCE_DIGITS);
    nonce.push('C');
    push_hex(&mut nonce, &digest[..NONCE_DIGITS / 2]);
    Ok(nonce)
}

fn keyed(key: &[u8], context: &str) -> [u8; 32] {
    // HMAC hashes longer keys itself, so every length is accepted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { unreachable!("HMAC takes keys of any length") };
    mac.update(context.as_bytes());
    mac.finalize().into_bytes().into()
}

pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// The lines around a context: `<<<CONTEXT:<nonce>` with its LF, and LF with `CONTEXT:<nonce>>>>`.
fn fence(context: &str, key: Option<&[u8]>) -> Result<(String, String), Error> {
    let nonce = context_nonce(context, key)?;
    Ok((["<<<CONTEXT:", &nonce, "\n"].concat(), ["\nCONTEXT:", &nonce, ">>>"].concat()))
}

/// What stands before and after the context in the user message: instruction, schema block and the fence.
pub(crate) fn user_frame(block: &str, context: &str, key: Option<&[u8]>) -> Result<(String, String), Error> {
    let (open, close) = fence(context, key)?;
    Ok(([INSTRUCTION, "\n\n", block, "\n\n", &open].concat(), close))
}

/// The user message: instruction, schema block, fenced context.
pub(crate) fn user_content(block: &str, context: &str, key: Option<&[u8]>) -> Result<String, Error> {
    let (before, after) = user_frame(block, context, key)?;
    Ok([&before, context, &after].concat())
}

/// The user message of a question asked alone: fenced context, instruction, schema block. What comes before the question
/// is the same for every question on a context.
pub(crate) fn isolated_content(block: &str, context: &str, key: Option<&[u8]>) -> Result<String, Error> {
    let (open, close) = fence(context, key)?;
    Ok([&open, context, &close, "\n\n", INSTRUCTION, "\n\n", block].concat())
}
