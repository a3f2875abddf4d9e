import { createPrivateKey } from "node:crypto";
import * as z from "zod";
import { tryParseJson } from "../../lib/json.ts";
import { memo } from "../../lib/memo.ts";

/** The stored fields of a service account's key file. Other fields are dropped. */
export interface ServiceAccountKey {
  type: "service_account";
  client_email: string;
  /** PKCS#8 PEM with real line breaks. */
  private_key: string;
  private_key_id?: string;
  project_id?: string;
  /** The audience of assertions, and their address unless a setting replaces it. */
  token_uri: string;
}

/** Google's token endpoint, for key files without one. */
const googleTokenUri = "https://oauth2.googleapis.com/token";

const rsaBits = 2048;

/**
 * A project's id, its number, or an id with its domain (`example.com:project`).
 * Rules: Resource Manager API v3, resource Project, field projectId.
 */
export const projectPattern = /^(?:\d{1,19}|(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+:)?[a-z][a-z0-9-]{4,28}[a-z0-9])$/;

export const projectRule =
  "must be a project id (6 to 30 lowercase letters, digits and hyphens, beginning with a letter and not ending with a hyphen, perhaps with its domain as in example.com:my-project) or a project number";

/** Other types of Google's credentials files. Some contain a URL that would receive a token. */
const otherTypes = [
  "authorized_user",
  "external_account",
  "external_account_authorized_user",
  "gdch_service_account",
  "impersonated_service_account",
];

const text = (rule: RegExp, message: string) => z.string(message).regex(rule, message);
const optionalText = (rule: RegExp, message: string) =>
  z
    .string(message)
    .transform((given) => given || undefined)
    .refine((given) => given === undefined || rule.test(given), message)
    .optional();

const Fields = memo(() =>
  z.object({
    client_email: text(/^[^\s@]{1,64}@[^\s@]{3,253}$/, "client_email must be the service account's e-mail address"),
    private_key: z.string("private_key must be a text").transform((given, context) => {
      // A file passed through an environment variable has a backslash and an n for each line break.
      const pem = given.replaceAll("\\n", "\n").replaceAll("\r\n", "\n").trim();
      const mistake = mistakeInKey(pem);
      if (mistake === null) return `${pem}\n`;
      context.addIssue({ code: "custom", message: mistake });
      return z.NEVER;
    }),
    private_key_id: optionalText(/^[\w-]{1,128}$/, "private_key_id must be letters, digits, hyphens and underscores"),
    project_id: optionalText(projectPattern, `project_id in the key ${projectRule}`),
    token_uri: optionalText(/^https?:\/\/[^\s@]{1,2000}$/, "token_uri must be a URL without credentials"),
  }),
);

/**
 * The schema of a service account's key, as JSON text of its file or as an object. Messages name fields, never contents.
 * Fields: "Creating service account keys", Google Cloud IAM.
 */
export const serviceAccountKey = memo(
  (): z.ZodType<ServiceAccountKey> =>
    z.unknown().transform((given, context) => {
      const refuse = (message: string) => {
        context.addIssue({ code: "custom", message });
        return z.NEVER;
      };
      if (given === undefined || given === null || given === "") return refuse("is required: a service account's key");
      if (typeof given === "string" && given.trimStart().startsWith("@")) {
        return refuse(
          "begins with @: send the content of the file instead, because the service cannot read your files",
        );
      }
      const file = typeof given === "string" ? tryParseJson(given) : given;
      if (typeof file !== "object" || file === null || Array.isArray(file)) {
        return refuse("must be the JSON content of a service account's key file");
      }
      const type: unknown = "type" in file ? file.type : undefined;
      if (type !== "service_account") {
        const named = otherTypes.find((other) => other === type);
        return refuse(
          `must be the key of a service account (type service_account)${named === undefined ? "" : `; ${named} is not supported`}`,
        );
      }
      const parsed = Fields().safeParse(file);
      if (!parsed.success) return refuse(parsed.error.issues.map(({ message }) => message).join("; "));
      const { private_key_id, project_id, token_uri, ...required } = parsed.data;
      return {
        type: "service_account",
        ...required,
        ...(private_key_id === undefined ? {} : { private_key_id }),
        ...(project_id === undefined ? {} : { project_id }),
        token_uri: token_uri ?? googleTokenUri,
      };
    }),
);

function mistakeInKey(pem: string): string | null {
  const form = `private_key must be an RSA key of at least ${rsaBits} bits in PKCS#8 PEM form (BEGIN PRIVATE KEY)`;
  if (!/^-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+\n-----END PRIVATE KEY-----$/.test(pem)) return form;
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem);
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? rsaBits) >= rsaBits ? null : form;
  } catch {
    return form;
  }
}
