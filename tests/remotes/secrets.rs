//! The forge's token stays with the process that pushes: on a pull request it is used, and no child
//! ever sees it.

use super::{FIXES, Remotes};
use crate::agents::secrets::{LOOK, as_nobody};
use crate::support::play::Script;
use crate::support::run;

const CANARY: &str = "canary-of-the-forge-0123";

#[test]
fn no_child_on_a_pull_request_reads_the_token_that_pushes() {
    let stage = Remotes::new(&Script {
        reviewer: "look\nif grep -q fixed work.txt; then says approved fine; else says changes_requested no \"$(finding work.txt 1 'say fixed')\"; fi",
        fixer: &format!("look\n{FIXES}"),
        settings: "gates = [[\"look\"]]",
        ..Script::default()
    });
    let play = &stage.play;
    play.world.script(
        "look",
        &format!("PROMPTS='{}'\n{LOOK}", play.seen("").display()),
    );
    let Some(mut tick) = as_nobody(play) else {
        return;
    };
    // Another user may not have access to the directory in which the program was built.
    let config = play.world.root().join("config/remand/config.toml");
    let own = tick
        .get_args()
        .last()
        .map_or_else(|| tick.get_program().to_owned(), ToOwned::to_owned);
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        text.replace(env!("CARGO_BIN_EXE_remand"), own.to_str().unwrap()),
    )
    .unwrap();
    for name in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
    ] {
        tick.env(name, CANARY);
    }
    run(tick.arg("tick")).report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(stage.moves("feature").len(), 1);
    for phase in ["review", "fix", "gate"] {
        assert!(
            play.noted(&format!("{phase}.tried")).lines().count() >= 2,
            "{phase}"
        );
        assert_eq!(play.noted(&format!("{phase}.opened")), "", "{phase}");
        let env = play.noted(&format!("{phase}.env"));
        assert!(
            env.contains("REMAND_RUN=") && !env.contains(CANARY),
            "{phase}: {env}"
        );
    }
}
