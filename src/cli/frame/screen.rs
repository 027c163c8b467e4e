//! The alternate screen of a terminal, with keys read as they are typed. The terminal is restored
//! however the program ends: by a key, a signal, an error or a panic.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Enters the alternate screen, without a cursor and without wrapping long lines.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

/// Interval between two checks for keys.
const KEY_PAUSE: Duration = Duration::from_millis(80);

/// Original state of the terminal while it is changed.
static CHANGED: Mutex<Option<Modes>> = Mutex::new(None);
/// `None` if stdin is not a terminal, and there are no keys.
type Modes = Option<Termios>;

/// The alternate screen, until it is dropped.
pub(crate) struct Screen {
    has_keys: bool,
    resized: Signal,
    ends: [Signal; 3],
}

/// Request from a person or another program to the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Quit,
    Resize,
}

impl Screen {
    /// Enters the alternate screen. Must be called inside a runtime.
    pub(crate) fn enter() -> io::Result<Self> {
        let resized = signal(SignalKind::window_change())?;
        let ends = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        leave_on_panic();
        let stdin = io::stdin();
        let modes = stdin.is_terminal().then(|| read_keys(&stdin)).transpose()?;
        let has_keys = modes.is_some();
        *CHANGED.lock().unwrap_or_else(PoisonError::into_inner) = Some(modes);
        // From here on, a drop restores the terminal.
        let screen = Self {
            has_keys,
            resized,
            ends,
        };
        write(ENTER)?;
        Ok(screen)
    }

    /// Waits for a request. Cancel-safe: nothing is lost if the future is dropped and called again.
    pub(crate) async fn request(&mut self) -> Request {
        let Self {
            has_keys,
            resized,
            ends: [interrupt, terminate, hangup],
        } = self;
        tokio::select! {
            () = quit_key(), if *has_keys => Request::Quit,
            _ = interrupt.recv() => Request::Quit,
            _ = terminate.recv() => Request::Quit,
            _ = hangup.recv() => Request::Quit,
            _ = resized.recv() => Request::Resize,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Reads keys one by one without echo, and disables Ctrl-Z, which would leave the terminal in this
/// state. Returns the previous modes.
fn read_keys(stdin: &io::Stdin) -> io::Result<Termios> {
    let before = rustix::termios::tcgetattr(stdin)?;
    let mut modes = before.clone();
    modes
        .local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);
    // A read returns immediately, even without input.
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    rustix::termios::tcsetattr(stdin, OptionalActions::Now, &modes)?;
    Ok(before)
}

/// Waits until `q` is typed. Polls: a non-blocking wait would change the terminal for the other
/// programs that share it.
async fn quit_key() {
    loop {
        let mut typed = [0_u8; 64];
        let read = rustix::io::read(io::stdin(), &mut typed).unwrap_or(0);
        if typed
            .iter()
            .take(read)
            .any(|key| matches!(key, b'q' | b'Q'))
        {
            return;
        }
        tokio::time::sleep(KEY_PAUSE).await;
    }
}

fn write(codes: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(codes.as_bytes())?;
    stdout.flush()
}

/// Restores the terminal, once.
fn leave() {
    let changed = CHANGED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let Some(modes) = changed else { return };
    // If the terminal is gone, neither call is needed.
    drop(write(LEAVE));
    if let Some(modes) = modes {
        let back = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        drop(back.map_err(io::Error::from));
    }
}

/// Leaves the alternate screen before a panic message is printed.
fn leave_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            next(panic);
        }));
    });
}
