import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { InvalidUsage } from "./command.ts";

/** Asks at the terminal. @throws InvalidUsage without one */
export const ask = (question: string): Promise<string> => answerTo(question, false);

/** Asks without showing what is typed. @throws InvalidUsage without a terminal */
export const askSecret = (question: string): Promise<string> => answerTo(question, true);

function answerTo(question: string, isHidden: boolean): Promise<string> {
  if (!process.stdin.isTTY)
    return Promise.reject(
      new InvalidUsage(`${question.replace(/:? *$/, "")}: is missing, and there is no terminal to ask for it`),
    );
  let isMuted = false;
  const output = new Writable({
    write: (chunk, _encoding, done) => {
      if (!isMuted) process.stderr.write(chunk);
      done();
    },
  });
  const terminal = createInterface({ input: process.stdin, output, terminal: true });
  return new Promise((resolve, reject) => {
    // The end of the input, too, closes it.
    terminal.once("close", () => {
      if (isHidden) process.stderr.write("\n");
      reject(new InvalidUsage("cancelled"));
    });
    terminal.on("SIGINT", () => terminal.close());
    terminal.question(question, (answer) => {
      resolve(answer);
      terminal.close();
    });
    isMuted = isHidden;
  });
}
