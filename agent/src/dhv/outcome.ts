import type { ErrorKind, OperationError } from "@sallyport/agent-protocol";
import { codeOf } from "../log.ts";

export type Failure = { readonly ok: false } & Readonly<OperationError>;

/** The outcome of a host-volume operation: its result, or the failure and whether something may remain. */
export type Outcome<T extends object = object> = ({ readonly ok: true } & T) | Failure;

const MAX_MESSAGE_LENGTH = 4096;

export function fail(kind: ErrorKind, message: string, outcome: Failure["outcome"] = "failed"): Failure {
  return { ok: false, kind, message: message.slice(0, MAX_MESSAGE_LENGTH).toWellFormed(), outcome };
}

/** Prefixes a failure's message with the operation. */
export const during = (doing: string, { kind, message, outcome }: Failure) =>
  fail(kind, `${doing}: ${message}`, outcome);

/** External text as one line of an error: no control, line or direction characters, at most `most` long. */
export const oneLine = (text: string, most = 1024): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu, " ")
    .trim()
    .slice(0, most)
    .toWellFormed();

const codes: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  EACCES: "permission denied",
  EPERM: "operation not permitted",
  ENOSPC: "no space left on the device",
  EDQUOT: "disk quota exceeded",
  EROFS: "read-only file system",
  ENOTDIR: "not a directory",
  EBUSY: "resource busy",
};

/** A failure of the operating system. @param otherwise its kind, unless the disk is full */
export function systemFailure(failure: unknown, otherwise: ErrorKind, outcome?: Failure["outcome"]): Failure {
  const code = codeOf(failure);
  const full = code === "ENOSPC" || code === "EDQUOT";
  return fail(full ? "exhausted" : otherwise, systemText(failure), outcome);
}

/** The text of a system error, without the paths that Node adds. */
export function systemText(failure: unknown): string {
  const code = codeOf(failure);
  if (code !== undefined) return codes[code] ?? code;
  return oneLine(failure instanceof Error ? failure.message : String(failure));
}
