import { type Command, command, type Io, oneOf } from "./command.ts";
import { connect } from "./connect.ts";
import { Kv } from "./kv/store.ts";

/** Completion for shells. The shell's part is a few lines; the program itself finds the words, also names of secrets. */

const SHELLS = ["bash", "zsh", "fish"] as const;

const SCRIPTS: Readonly<Record<(typeof SHELLS)[number], string>> = {
  bash: `_sallyport() {
  local IFS=$'\\n' cur=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(sallyport complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _sallyport sallyport`,
  zsh: `#compdef sallyport
_sallyport() {
  local -a found
  found=("\${(@f)$(sallyport complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n $found ]] && compadd -S '' -- "\${found[@]}" || _files
}
compdef _sallyport sallyport`,
  fish: `function __sallyport
  set -l words (commandline -opc) (commandline -ct)
  sallyport complete -- $words[2..-1] 2>/dev/null
end
complete -c sallyport -f -a '(__sallyport)'`,
};

/** @param commands those that are completed */
export const completionOf = (commands: () => readonly Command[]): readonly Command[] => [
  command({
    words: ["completion"],
    summary: "print the completion for bash, zsh or fish",
    about: `Prints the lines that complete commands, options and names of secrets in a shell:

  bash  source <(sallyport completion bash)
  zsh   source <(sallyport completion zsh)
  fish  sallyport completion fish | source

It is for a command of this name on PATH, such as the one in node_modules/.bin, not for npx.`,
    args: [{ name: "SHELL", help: SHELLS.join(", ") }],
    options: {},
    run: async ({ args: [shell = ""] }, io) => {
      io.out(SCRIPTS[oneOf("SHELL", shell, SHELLS)]);
      return 0;
    },
  }),
  command({
    words: ["complete"],
    summary: "",
    about: "Prints the words that may complete a command line; the completion of a shell calls it.",
    args: [{ name: "WORD...", help: "the words so far, the last one unfinished" }],
    options: {},
    isWrapper: true,
    run: async ({ args }, io) => {
      for (const word of await wordsAfter(commands(), args, io)) io.out(word);
      return 0;
    },
  }),
];

async function wordsAfter(commands: readonly Command[], words: readonly string[], io: Io): Promise<string[]> {
  const given = words.slice(0, -1);
  const last = words.at(-1) ?? "";
  const visible = commands.filter(({ summary }) => summary !== "");
  const found = visible.find((each) => each.words.every((word, at) => given[at] === word));
  if (found === undefined) {
    const next = visible
      .filter((each) => given.every((word, at) => each.words[at] === word))
      .map((each) => each.words[given.length] ?? "");
    return [...new Set(next)].filter((word) => word !== "" && word.startsWith(last));
  }
  if (last.startsWith("-"))
    return Object.keys({ ...found.options, help: 0 })
      .map((name) => `--${name}`)
      .filter((name) => name.startsWith(last));
  const isPath =
    given.at(-1) === "--path" ||
    /^(PATH|FROM|TO|OTHER)/.test(found.args?.[given.length - found.words.length]?.name ?? "");
  return isPath ? paths(last, io) : [];
}

/** Mounts, folders and secrets that begin with `start`; none without a login. */
async function paths(start: string, io: Io): Promise<string[]> {
  try {
    const kv = new Kv(connect({ namespace: undefined }, io));
    const folder = start.slice(0, start.lastIndexOf("/") + 1);
    const names = folder === "" ? await kv.mounts() : await kv.list(await kv.at(folder));
    return names.map((name) => `${folder}${name}`).filter((name) => name.startsWith(start));
  } catch {
    return [];
  }
}
