import { ASSERT, DO, type Program } from "./compile.ts";

/** Before the start and after the end of the text. */
const NOTHING = -1;
const NEWLINE = 10;

/**
 * Whether a match exists anywhere in the text, and the number of steps: at most the program's size per character and
 * for the end. All alternatives run simultaneously, one character at a time, and merge at equal steps (Thompson's
 * construction, as Pike runs it; https://swtch.com/~rsc/regexp/regexp2.html).
 */
export function run(program: Program, text: string): { found: boolean; taken: number } {
  const { steps, arguments: args, sets } = program;
  // A step pushes at most two others, once per character.
  let pile = new Int32Array(3 * steps.length + 1);
  let next = new Int32Array(pile.length);
  /** Character number at which a step was last visited. */
  const takenAt = new Int32Array(steps.length).fill(-1);
  let height = 0;
  let taken = 0;
  let before = NOTHING;
  for (let at = 0, number = 0; ; number++) {
    const code = text.codePointAt(at) ?? NOTHING;
    const holding = assertionsBetween(before, code);
    let nextHeight = 0;
    pile[height++] = 0;
    while (height > 0) {
      const step = pile[--height] as number;
      if (takenAt[step] === number) continue;
      takenAt[step] = number;
      taken += 1;
      const argument = args[step] as number;
      switch (steps[step]) {
        case DO.match:
          return { found: true, taken };
        case DO.literal:
          if (code === argument) next[nextHeight++] = step + 1;
          break;
        case DO.characters:
          if (code !== NOTHING && sets[argument]?.has(code)) next[nextHeight++] = step + 1;
          break;
        case DO.assert:
          if (holding & argument) pile[height++] = step + 1;
          break;
        case DO.split:
          pile[height++] = argument;
          pile[height++] = step + 1;
          break;
        case DO.jump:
          pile[height++] = argument;
      }
    }
    if (code === NOTHING) return { found: false, taken };
    [pile, next] = [next, pile];
    height = nextHeight;
    before = code;
    at += code > 0xffff ? 2 : 1;
  }
}

function assertionsBetween(before: number, after: number): number {
  return (
    (before === NOTHING ? ASSERT["text start"] : 0) |
    (after === NOTHING ? ASSERT["text end"] : 0) |
    (before === NOTHING || before === NEWLINE ? ASSERT["line start"] : 0) |
    (after === NOTHING || after === NEWLINE ? ASSERT["line end"] : 0) |
    (isWord(before) === isWord(after) ? ASSERT["no word boundary"] : ASSERT["word boundary"])
  );
}

/** ASCII only, as in Go. */
function isWord(code: number): boolean {
  const letter = code | 0x20;
  return (code >= 0x30 && code <= 0x39) || (code >= 0x41 && letter >= 0x61 && letter <= 0x7a) || code === 0x5f;
}
