import { describe, expect, it } from "vitest";
import { crc32c } from "./crc32c.ts";

describe("crc32c", () => {
  // RFC 3720, appendix B.4, the check value of the CRC catalogue, and two that Google's own client computed.
  it.each<[string, Uint8Array, number]>([
    ["32 bytes of zeroes", new Uint8Array(32), 0x8a9136aa],
    ["32 bytes of ones", new Uint8Array(32).fill(0xff), 0x62a8ab43],
    ["32 bytes that count up", Uint8Array.from({ length: 32 }, (_, at) => at), 0x46dd794e],
    ["32 bytes that count down", Uint8Array.from({ length: 32 }, (_, at) => 31 - at), 0x113fdb5c],
    ["123456789", Buffer.from("123456789"), 0xe3069283],
    ["one", Buffer.from("one"), 714388201],
    ["hello", Buffer.from("hello"), 2591144780],
    ["nothing", new Uint8Array(0), 0],
  ])("of %s is the published value", (_what, bytes, expected) => {
    expect(crc32c(bytes)).toBe(expected);
  });
});
