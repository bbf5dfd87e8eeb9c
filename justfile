# Shortcuts. Plain cargo does the same: each recipe is one command to copy.

# what a change has to pass, without the real servers
check:
    .ci/run format lints tests docs

# everything that CI runs
ci:
    .ci/run

# the service against real servers (needs a JDK, Maven and Python); `just live flink-loop` and `just live druid-day` take about an hour each, `just live hpa` needs Go alone
live what="ci":
    .ci/run live{{ if what == "ci" { "" } else { "-" + what } }}

# accept what the goldens say now: look at the difference before you commit it
bless:
    LOADLINE_BLESS=1 cargo test --locked

# a day of two simulated clusters in twelve minutes: http://127.0.0.1:8080
demo:
    cargo run --release --locked -- serve --demo

# how long decisions take
bench *filter:
    cargo bench --locked -- {{filter}}

# licences, advisories, duplicates of the dependencies (cargo install --locked cargo-deny)
deny:
    cargo deny --locked check

# the documentation of the crate
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --open
