//! The schema block: one line per field.

use std::iter::zip;

use crate::json::push_text;
use crate::schema::Field;

const MULTI_QUESTION: &str =
    " — how many of these apply? Answer one of \"0\", \"1\", \"2\", \"3\", \"4\" (\"4\" means four or more).";
const MULTI_NOTE: &str =
    " (select all that apply; each coded option is answered \"Y\" = applies or \"N\" = does not apply)";

/// What a field's choices are shown under.
pub(crate) enum Menu<'a> {
    /// The choices themselves.
    Labels,
    /// An alias for each choice, from the compiled plan.
    Slots(&'a [String]),
    /// A two-digit code for each option.
    Multi(&'a [String]),
}

pub(crate) fn schema_block<'a>(fields: impl Iterator<Item = (&'a Field, Menu<'a>)>) -> String {
    let mut out = String::new();
    for (index, (field, menu)) in fields.enumerate() {
        if index > 0 {
            out.push('\n');
        }
        push_line(&mut out, field, &menu);
    }
    out
}

fn push_line(out: &mut String, field: &Field, menu: &Menu<'_>) {
    out.push_str("  ");
    push_text(out, field.name());
    out.push_str(": ");
    let separator = if matches!(menu, Menu::Multi(_)) { "; " } else { "  " };
    for (index, (choice, gloss)) in zip(field.choices(), field.glosses()).enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        match menu {
            Menu::Labels => {}
            Menu::Slots(aliases) => {
                out.push_str(&aliases[index]);
                out.push_str(") ");
            }
            Menu::Multi(codes) => {
                out.push_str(&codes[index]);
                out.push_str(" = ");
            }
        }
        push_text(out, choice);
        if !gloss.is_empty() {
            out.push_str(" — ");
            push_text(out, gloss);
        }
    }
    let multi = matches!(menu, Menu::Multi(_));
    if multi {
        out.push_str(MULTI_QUESTION);
    }
    out.push_str("  // ");
    push_text(out, field.description_line());
    if multi {
        out.push_str(MULTI_NOTE);
    }
}
