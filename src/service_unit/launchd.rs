//! The property list for launchd.

use super::{MARK, Scope, Unfit, UnitSpec, fit};

/// Label of the service in launchd.
pub(crate) const LABEL: &str = "remand";

pub(super) fn plist(wish: &UnitSpec) -> Result<String, Unfit> {
    let program = wish.program.to_string_lossy();
    let mut words = vec![string(&program)?];
    for arg in &wish.args {
        words.push(string(arg)?);
    }
    let run_as = match &wish.scope {
        Scope::User => String::new(),
        Scope::System { run_as } => format!("\t<key>UserName</key>\n\t{}\n", string(run_as)?),
    };
    let log = string(&wish.state.join("daemon.log").to_string_lossy())?;
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- {MARK}; the next one overwrites this file. -->
<plist version=\"1.0\">
<dict>
\t<key>Label</key>
\t<string>{LABEL}</string>
{run_as}\t<key>ProgramArguments</key>
\t<array>
\t\t{}
\t</array>
\t<key>EnvironmentVariables</key>
\t<dict>
\t\t<key>PATH</key>
\t\t{}
\t</dict>
\t<key>RunAtLoad</key>
\t<true/>
\t<!-- Restarts after any failure, every ten seconds: launchd cannot exclude exit codes such as that for invalid settings. -->
\t<key>KeepAlive</key>
\t<dict>
\t\t<key>SuccessfulExit</key>
\t\t<false/>
\t</dict>
\t<key>ExitTimeOut</key>
\t<integer>{}</integer>
\t<key>ProcessType</key>
\t<string>Background</string>
\t<key>Umask</key>
\t<integer>63</integer>
\t<key>StandardOutPath</key>
\t{log}
\t<key>StandardErrorPath</key>
\t{log}
</dict>
</plist>
",
        words.join("\n\t\t"),
        string(&wish.path)?,
        wish.stop_s,
    ))
}

fn string(text: &str) -> Result<String, Unfit> {
    let text = fit(text)?
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    Ok(format!("<string>{text}</string>"))
}
