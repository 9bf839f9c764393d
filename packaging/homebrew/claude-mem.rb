# Builds from the source tarball of a release. `url` and `sha256` are set by whoever publishes one.
class ClaudeMem < Formula
  desc "Persistent memory for Claude Code, as a supervised operating-system service"
  homepage "https://github.com/claude-mem/claude-mem"
  url "https://github.com/claude-mem/claude-mem/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args
    generate_completions_from_executable(bin/"claude-mem", "completions")
    system bin/"claude-mem", "man", man1
  end

  def caveats
    <<~EOS
      Wire the hooks and start the service with
        claude-mem install
      and see whether everything works with
        claude-mem doctor
      Before `brew uninstall`, take it back with
        claude-mem uninstall
    EOS
  end

  test do
    ENV["CLAUDE_MEM_HOME"] = testpath/"data"
    assert_match "claude-mem #{version}", shell_output("#{bin}/claude-mem --version")
    assert_match "No sessions yet", shell_output("#{bin}/claude-mem sessions")
    pipe_output("#{bin}/claude-mem-hook new", '{"session_id":"s","cwd":"/","prompt":"hello"}', 0)
  end
end
