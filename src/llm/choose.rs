//! Selects the provider and gives the reason.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Llm;
use super::anthropic::Anthropic;
use super::api::Api;
use super::claude_cli::{ClaudeCli, Setup, installed};
use super::credentials::Credentials;
use super::http::Endpoint;
use super::openai::OpenAi;
use super::session::{Session, SessionJobs};
use crate::config::{Config, Environment, Provider, Secret};
use crate::paths::Home;

/// The selected provider.
#[derive(Debug)]
pub enum Choice {
    /// A model.
    Llm(Llm),
    /// No model, only rules.
    Local {
        /// The reason, as a sentence for the user.
        why: String,
    },
    /// The configured model cannot be used. Queued work waits until the user fixes that.
    Unusable {
        /// The problem to fix, as a sentence for the user.
        why: String,
    },
}

/// Selects a provider from the settings, the keys, and the installed programs. `own_program` is the
/// path of `claude-mem` itself.
pub fn choose(config: &Config, home: &Home, environment: &Environment, own_program: &Path) -> Choice {
    let chooser = Chooser { config, home, environment, own_program };
    let chosen = match config.compress.provider {
        Provider::Auto => return chooser.auto(),
        Provider::Local => return Choice::Local { why: "compress.provider is local.".into() },
        Provider::Anthropic => chooser.anthropic(Credentials::find(home, &environment.outgoing)),
        Provider::Openai => chooser.openai(Credentials::find(home, &environment.outgoing)),
        Provider::ClaudeCli => chooser.claude_cli(),
        Provider::Session => Ok(chooser.session()),
    };
    chosen.map_or_else(|why| Choice::Unusable { why }, Choice::Llm)
}

impl Choice {
    /// Makes the provider `session` hand its requests over at this place.
    #[must_use]
    pub fn meeting_at(mut self, jobs: &SessionJobs) -> Self {
        if let Self::Llm(Llm::Session(session)) = &mut self {
            session.jobs = jobs.clone();
        }
        self
    }
}

struct Chooser<'a> {
    config: &'a Config,
    home: &'a Home,
    environment: &'a Environment,
    own_program: &'a Path,
}

impl Chooser<'_> {
    fn auto(&self) -> Choice {
        let credentials = Credentials::find(self.home, &self.environment.outgoing);
        let problem = credentials.problem.as_ref().map(|problem| format!(" {problem}.")).unwrap_or_default();
        if credentials.anthropic.is_some() {
            return self.anthropic(credentials).map_or_else(|why| Choice::Unusable { why }, Choice::Llm);
        }
        let claude = match self.claude_cli() {
            Ok(llm) if installed::is_logged_in(self.environment) => return Choice::Llm(llm),
            Ok(_) => "`claude` is not logged in.".to_owned(),
            Err(why) => why,
        };
        Choice::Local { why: format!("There is no ANTHROPIC_API_KEY, and {claude}{problem}") }
    }

    fn anthropic(&self, credentials: Credentials) -> Result<Llm, String> {
        let Some(key) = credentials.anthropic else {
            let problem = credentials.problem.map(|problem| format!(" {problem}.")).unwrap_or_default();
            return Err(format!(
                "compress.provider is anthropic, but there is no ANTHROPIC_API_KEY.{problem}"
            ));
        };
        let endpoint = self.endpoint("anthropic.base_url", &self.config.anthropic.base_url, Some(key))?;
        Ok(Llm::Anthropic(Anthropic(Arc::new(Api::new(endpoint, &self.config.compress.model)))))
    }

    fn openai(&self, credentials: Credentials) -> Result<Llm, String> {
        if self.config.openai.model.trim().is_empty() {
            return Err("compress.provider is openai, but openai.model is not set.".into());
        }
        let endpoint = self.endpoint("openai.base_url", &self.config.openai.base_url, credentials.openai)?;
        Ok(Llm::OpenAi(OpenAi(Arc::new(Api::new(endpoint, &self.config.openai.model)))))
    }

    fn claude_cli(&self) -> Result<Llm, String> {
        let command = &self.config.claude_cli.command;
        let Some(program) = installed::find_client(command, self.environment, self.home) else {
            return Err(format!("`{command}` is not installed (claude_cli.command can be set to its path)."));
        };
        Ok(Llm::ClaudeCli(ClaudeCli::new(Setup {
            program,
            guard: self.own_program.to_owned(),
            systemd_run: Setup::outside(self.environment),
            directory: self.home.dir().to_owned(),
            model: self.config.compress.model.clone(),
            timeout: self.timeout(),
            path: self.environment.outgoing.path.clone(),
            names: self.environment.outgoing.names.clone(),
            logged_in: installed::is_logged_in(self.environment),
        })))
    }

    fn session(&self) -> Llm {
        Llm::Session(Session {
            model: self.config.compress.model.clone(),
            wait: Duration::from_secs(self.config.compress.session_wait_s),
            timeout: self.timeout(),
            jobs: SessionJobs::default(),
        })
    }

    fn endpoint(&self, setting: &str, base_url: &str, key: Option<Secret>) -> Result<Endpoint, String> {
        Endpoint::new(base_url, key, &self.environment.outgoing.proxies, self.timeout())
            .map_err(|wrong| format!("{setting} {wrong}."))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.config.compress.timeout_s)
    }
}
