//! The choice of the provider, and its explanation for the user.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use claude_mem::config::{Config, Provider, Secret};
use claude_mem::llm::Choice;

use crate::harness::claude::KEY;
use crate::harness::claude::Place;

#[test]
fn auto_prefers_a_key_then_a_login_and_explains_local() {
    let mut place = Place::new("");
    place.config.compress.provider = Provider::Auto;
    assert_eq!(place.llm().name(), "claude-cli");
    place.environment.outgoing.anthropic_key = Secret::new(KEY);
    assert_eq!(place.llm().name(), "anthropic");
    place.environment.outgoing.anthropic_key = None;
    let why = |place: &Place| match place.choice() {
        Choice::Local { why } => why,
        other => panic!("{other:?}"),
    };
    fs::remove_file(place.path("home/.claude/.credentials.json")).unwrap();
    assert_eq!(why(&place), "There is no ANTHROPIC_API_KEY, and `claude` is not logged in.");
    fs::remove_file(place.path("bin/claude")).unwrap();
    assert!(why(&place).contains("`claude` is not installed"));
    fs::write(place.path("credentials"), format!("ANTHROPIC_API_KEY={KEY}")).unwrap();
    fs::set_permissions(place.path("credentials"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(why(&place).contains("chmod 600") && !why(&place).contains(KEY));
    fs::set_permissions(place.path("credentials"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(place.llm().name(), "anthropic");
}

#[test]
fn an_unusable_provider_reports_the_fix() {
    let mut place = Place::new("");
    let mut why = |provider, change: fn(&mut Config)| {
        place.config = Config::default();
        place.config.compress.provider = provider;
        change(&mut place.config);
        match place.choice() {
            Choice::Unusable { why } | Choice::Local { why } => why,
            Choice::Llm(llm) => panic!("{llm:?}"),
        }
    };
    assert!(why(Provider::Anthropic, |_| ()).contains("no ANTHROPIC_API_KEY"));
    assert!(why(Provider::Openai, |_| ()).contains("openai.model is not set"));
    assert!(
        why(Provider::ClaudeCli, |config| config.claude_cli.command = "no-such-claude".into())
            .contains("no-such-claude")
    );
    assert_eq!(why(Provider::Local, |_| ()), "compress.provider is local.");
    let address = why(Provider::Openai, |config| {
        config.openai.model = "x".into();
        config.openai.base_url = "api.example.org".into();
    });
    assert_eq!(address, "openai.base_url is not an address.");
}
