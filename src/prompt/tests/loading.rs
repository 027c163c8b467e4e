//! Tests for the checks made when prompts are loaded, and for their error messages.

use insta::assert_snapshot;

use super::*;

fn load_error(file: &str, source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(file), source).unwrap();
    let error = Prompts::load(Some(folder.path())).unwrap_err();
    error
        .to_string()
        .replace(&folder.path().display().to_string(), "FOLDER")
}

#[test]
fn a_syntax_error_is_shown_at_its_line() {
    assert_snapshot!(load_error("fix.md", "Repair\n  {% if plan %}it\n{{ title"), @r#"
    error: syntax error: unexpected end of input, expected end of variable block
     --> FOLDER/fix.md:3:1
      |
    3 | {{ title
      | ^^^^^^^^ here
      |
      = help: template syntax: https://docs.rs/minijinja/3/minijinja/syntax/
    "#);
}

#[test]
fn an_unknown_variable_is_shown_with_what_is_allowed() {
    assert_snapshot!(load_error("again.md", "titel, then\nAbout {{ nonce ~ titel }}"), @r#"
    error: unknown variable `titel`
     --> FOLDER/again.md:2:18
      |
    2 | About {{ nonce ~ titel }}
      |                  ^^^^^ not a variable of `again`
      |
      = help: allowed in `again`: base_sha, head_sha, missing, answer (.text .left_out .stripped), open_findings (.id .severity .category .path .line .line_end .title .text .failure .suggestion .left_out), open_findings_left_out, nonce
    "#);
}

#[test]
fn an_unknown_field_is_an_error_too() {
    assert_snapshot!(load_error("again.md", "{{ answer.txt }}"), @r#"
    error: unknown variable `answer.txt`
     --> FOLDER/again.md:1:4
      |
    1 | {{ answer.txt }}
      |    ^^^^^^^^^^ not a variable of `again`
      |
      = help: allowed in `again`: base_sha, head_sha, missing, answer (.text .left_out .stripped), open_findings (.id .severity .category .path .line .line_end .title .text .failure .suggestion .left_out), open_findings_left_out, nonce
    "#);
}

#[test]
fn an_unknown_field_of_a_list_is_found_by_trying() {
    assert_snapshot!(load_error("again.md", "a\n{% for f in open_findings %}\n{{ f.txet }}\n{% endfor %}"), @r#"
    error: unknown field
     --> FOLDER/again.md:3:1
      |
    3 | {{ f.txet }}
      | ^^^^^^^^^^^^ here
      |
      = help: allowed in `again`: base_sha, head_sha, missing, answer (.text .left_out .stripped), open_findings (.id .severity .category .path .line .line_end .title .text .failure .suggestion .left_out), open_findings_left_out, nonce
    "#);
}

#[test]
fn outside_text_without_a_fence_is_refused() {
    assert_snapshot!(load_error("review.md", "Review {{ title }} well"), @r#"
    error: `title` is untrusted text and is not inside a fence
     --> FOLDER/review.md:1:11
      |
    1 | Review {{ title }} well
      |           ^^^^^ an agent would take this for instructions from remand
      |
      = help: wrap it: {% filter fence("a label") %} … {% endfilter %}
    "#);
}

#[test]
fn a_template_that_reads_another_is_refused() {
    assert_snapshot!(load_error("again.md", "{% include \"/etc/passwd\" %}"), @r#"
    error: template not found: tried to include non-existing template '/etc/passwd'
     --> FOLDER/again.md:1:1
      |
    1 | {% include "/etc/passwd" %}
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^ here
      |
      = help: allowed in `again`: base_sha, head_sha, missing, answer (.text .left_out .stripped), open_findings (.id .severity .category .path .line .line_end .title .text .failure .suggestion .left_out), open_findings_left_out, nonce
    "#);
}

#[test]
fn a_template_without_end_is_refused() {
    let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert_snapshot!(load_error("again.md", source), @r#"
    error: the template does not terminate
     --> FOLDER/again.md:1:1
      |
    1 | {% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ here
      |
      = help: allowed in `again`: base_sha, head_sha, missing, answer (.text .left_out .stripped), open_findings (.id .severity .category .path .line .line_end .title .text .failure .suggestion .left_out), open_findings_left_out, nonce
    "#);
}

#[test]
fn the_printing_of_everything_is_not_there() {
    assert!(load_error("again.md", "{{ debug() }}").contains("unknown variable `debug`"));
}

#[test]
fn a_file_with_another_name_is_refused() {
    assert_snapshot!(load_error("fixx.md", ""), @"FOLDER/fixx.md is not a prompt; allowed names: implement.md, review.md, fix.md and again.md");
    assert_snapshot!(load_error("fix.txt", ""), @"FOLDER/fix.txt is not a prompt; allowed names: implement.md, review.md, fix.md and again.md");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let error = Prompts::load(Some(Path::new("/nowhere/prompts"))).unwrap_err();
    assert_snapshot!(error, @"cannot read the prompts directory /nowhere/prompts");
    assert!(matches!(error, PromptError::Folder { .. }));
}

#[test]
fn a_file_that_is_not_text_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fix.md"), [0xff, 0xfe]).unwrap();
    assert!(matches!(
        Prompts::load(Some(folder.path())),
        Err(PromptError::File { .. })
    ));
}

#[test]
fn a_users_file_takes_the_place_of_the_stock_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".DS_Store"), "").unwrap();
    fs::write(
        folder.path().join("again.md"),
        "Again: {% filter fence('why') %}{{ missing|join(', ') }}{% endfilter %}",
    )
    .unwrap();
    let prompts = Prompts::load(Some(folder.path())).unwrap();
    assert_eq!(
        prompts.again(&again_of("no verdict")).unwrap().text,
        format!("Again: begin {NONCE:032x} why\nno verdict\nend {NONCE:032x}\n")
    );
    let origins: Vec<String> = prompts
        .list()
        .map(|(name, origin, _)| {
            format!("{name} {origin}").replace(&folder.path().display().to_string(), "FOLDER")
        })
        .collect();
    assert_eq!(
        origins,
        [
            "review stock",
            "fix stock",
            "again FOLDER/again.md",
            "implement stock"
        ]
    );
    assert_eq!(prompts.source(Name::Fix), Name::Fix.stock());
}

/// A listed name without a value would be an error during dispatch.
#[test]
fn every_documented_variable_is_there() {
    let (review, fix, again) = (review_of("x"), fix_of("x"), again_of("x"));
    for (name, real) in [
        (Name::Review, review.values().0),
        (Name::Fix, fix.values().0),
        (Name::Again, again.values().0),
    ] {
        for variable in name.variables() {
            for values in name.trials().chain([real.clone()]) {
                let value = values.get_attr(variable.name).unwrap();
                assert!(!value.is_undefined(), "{name}: {}", variable.name);
                let one = value
                    .get_item(&0.into())
                    .ok()
                    .filter(|one| !one.is_undefined())
                    .unwrap_or(value);
                for field in variable
                    .fields
                    .iter()
                    .filter(|_| !one.is_none() && one.kind() == minijinja::value::ValueKind::Map)
                {
                    assert!(
                        !one.get_attr(field).unwrap().is_undefined(),
                        "{name}: {}.{field}",
                        variable.name
                    );
                }
            }
        }
    }
}
