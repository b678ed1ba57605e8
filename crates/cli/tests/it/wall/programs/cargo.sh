mkdir src
printf '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
cat > src/main.rs <<'END'
fn main() {
    println!("built");
}

#[test]
fn threads_work() {
    assert_eq!(std::thread::spawn(|| 1).join().unwrap(), 1);
}
END
cargo build --offline && ./target/debug/tiny | grep built && cargo test --offline
