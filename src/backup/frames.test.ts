import { expect, it } from "vitest";
import { MAGIC } from "./format.ts";
import { framesOf } from "./frames.ts";

const header = Buffer.from(MAGIC, "latin1");
const length = Buffer.from([0, 0, 0, 3]);
const frame = Buffer.from("abc");

async function framesIn(...pieces: readonly Uint8Array[]): Promise<string[]> {
  const frames: string[] = [];
  for await (const each of framesOf(new Blob(pieces.map((piece) => new Uint8Array(piece))).stream()))
    frames.push(Buffer.from(each).toString());
  return frames;
}

it("reads the frames of a file", async () => {
  expect(await framesIn(header, length, frame, length, frame)).toEqual(["abc", "abc"]);
  expect(await framesIn(header)).toEqual([]);
});

it("refuses a file that is cut off, at any byte", async () => {
  const whole = Buffer.concat([header, length, frame, length, frame]);
  const complete = [header.length, header.length + 7];
  for (let end = header.length; end < whole.length; end++) {
    const read = framesIn(whole.subarray(0, end));
    if (complete.includes(end)) await read;
    else await expect(read, `${end} bytes`).rejects.toThrow("cut off");
  }
});

it("refuses a file of another format", async () => {
  for (const body of [Buffer.from("x".repeat(100)), Buffer.alloc(0), header.subarray(1)])
    await expect(framesIn(body)).rejects.toThrow("is not a snapshot");
});
