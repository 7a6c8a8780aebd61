//! Any text parses to a schema or is refused with a code, and what parses survives its plain form.
#![no_main]

use jevmlx_core::Schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Schema::from_json(text) {
        Ok(schema) => assert_eq!(Schema::from_value(schema.to_json()).expect("valid"), schema),
        Err(error) => assert!(!error.code().is_empty() && !error.message().is_empty()),
    }
});
