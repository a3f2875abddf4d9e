import * as z from "zod";

/** A refusal: `fields` are added to the error object of the answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly fields: Record<string, unknown>;

  constructor(status: number, code: string, message: string, fields: Record<string, unknown> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }
}

export const bad = (message: string, code = "BAD_REQUEST") => new ApiError(400, code, message);

/** Names and values of all variables of one environment together. */
export const maxEnvironmentBytes = 65_536;

const targets = z.array(z.enum(["production", "preview", "development"]));
const fields = {
  key: z.string(),
  value: z.string(),
  type: z.enum(["encrypted", "plain", "sensitive"]),
  target: targets,
  gitBranch: z.string().min(1).max(250).nullable(),
  comment: z.string().max(500),
  customEnvironmentIds: z.array(z.string().regex(/^env_\w+$/)),
};
const { key, value, type, ...rest } = fields;
const creation = z.strictObject({ key, value, type, ...z.object(rest).partial().shape });
const change = z.strictObject(fields).partial();

export type Creation = z.infer<typeof creation>;
export type Change = z.infer<typeof change>;

/** The body of a creation, one variable or several. Throws `ApiError`. */
export function readCreations(body: unknown): Creation[] {
  const several = Array.isArray(body) ? body : [body];
  if (several.length === 0 || several.length > 100) throw bad("The body must hold 1 to 100 variables");
  return several.map((one) => parse(creation, one));
}

/** The body of a change. Throws `ApiError`. */
export function readChange(body: unknown): Change {
  const parsed = parse(change, body);
  if (Object.keys(parsed).length === 0) throw bad("Nothing is to be changed");
  return parsed;
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw bad(`Invalid request: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`, "bad_request");
}

const reserved = new Set([
  "AWS_SECRET_KEY",
  "AWS_EXECUTION_ENV",
  "AWS_LAMBDA_LOG_GROUP_NAME",
  "AWS_LAMBDA_LOG_STREAM_NAME",
  "AWS_LAMBDA_FUNCTION_NAME",
  "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
  "AWS_LAMBDA_FUNCTION_VERSION",
  "NOW_REGION",
  "TZ",
  "LAMBDA_TASK_ROOT",
  "LAMBDA_RUNTIME_DIR",
]);

/** The rules for every variable. */
export interface Shape {
  key: string;
  value: string;
  type: string;
  target: string[];
  gitBranch: string | null;
  customEnvironmentIds: string[];
}

/** Throws `ApiError` unless the variable, as it would be, keeps the rules. */
export function checkShape({ key, value, type, target, gitBranch, customEnvironmentIds }: Shape): void {
  if (key === "") throw bad("The name is missing", "MISSING_KEY");
  if (key.length > 256) throw bad("The name is too long", "KEY_INVALID_LENGTH");
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) throw bad("The name has invalid characters", "KEY_INVALID_CHARACTERS");
  if (reserved.has(key) || /^VERCEL(_|$)/.test(key)) throw bad("The name is reserved", "RESERVED_ENV_VARIABLE");
  if (value === "") throw bad("The value is missing", "MISSING_VALUE");
  if (Buffer.byteLength(value) > maxEnvironmentBytes) throw bad("The value is too long", "VALUE_INVALID_LENGTH");
  if (target.length === 0 && customEnvironmentIds.length === 0) throw bad("No environment is named", "MISSING_TARGET");
  if (new Set(target).size !== target.length) throw bad("An environment is named twice");
  if (gitBranch !== null && (target.length !== 1 || target[0] !== "preview")) {
    throw bad("A branch is possible for preview only");
  }
  if (type === "sensitive" && target.includes("development")) {
    throw bad("A sensitive variable cannot be set for development");
  }
}
