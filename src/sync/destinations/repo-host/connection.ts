import * as z from "zod";
import { isLoopback } from "../../../lib/hosts.ts";
import { memo } from "../../../lib/memo.ts";
import type { RepoHostConnection } from "../../../providers/repo-host-github/client.ts";
import { optionalText, withoutUnset } from "../fields.ts";

const text = (rule: RegExp, message: string) => optionalText(rule, message, "must be a text");

const word = <const Word extends string>(...words: Word[]) =>
  z.preprocess(
    (given) => (given === "" ? undefined : given),
    z.enum(words, `must be ${words.join(" or ")}`).optional(),
  );

/** Each name costs one call to the repository host. */
const maxSelected = 100;

/** Accounts: letters, digits, hyphens, and the underscore of managed users. */
const account = /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/;
const accountRule = "must be letters, digits, - or _, at most 100, beginning with a letter or digit";
const repository = /^(?!\.{1,2}$)(?!.*\.git$)[A-Za-z0-9._-]{1,100}$/;
const repositoryRule =
  "must be the name alone, without the owner and without .git: letters, digits, dots, - or _, at most 100";

const names = () =>
  z
    .union([z.string(), z.array(z.string())], "must be a list of texts, or one text separated by commas")
    .transform((given) => {
      const list = (typeof given === "string" ? given.split(",") : given).map((name) => name.trim());
      return [...new Set(list.filter((name) => name !== ""))];
    })
    .refine((list) => list.every((name) => repository.test(name)), `each name ${repositoryRule}`)
    .refine((list) => list.length <= maxSelected, `must hold at most ${maxSelected} names`)
    .optional();

export const repoHostFields = memo(() =>
  z.object({
    access_token: text(/^[\x21-\x7e]{1,1024}$/, "must be printable characters without spaces, at most 1024"),
    app_name: text(/^[\w.-]{1,128}$/, "must be letters, digits, dots, - or _, at most 128"),
    installation_id: text(/^[1-9]\d{0,14}$/, "must be a positive whole number"),
    secrets_location: word("repository", "organization"),
    application: word("actions", "dependabot", "codespaces"),
    repository_owner: text(account, accountRule),
    repository_name: text(repository, repositoryRule),
    environment_name: text(
      /^(?!\.{1,2}$)[^\x00-\x1f\x7f]{1,255}$/,
      "must be 1 to 255 characters without control characters, and not . or ..",
    ),
    organization_name: text(account, accountRule),
    organization_visibility: word("all", "private", "selected"),
    selected_repository_names: names(),
    enterprise_url: z
      .string("must be a text")
      .transform((given) => given.trim())
      .refine(
        (given) => given === "" || enterpriseOrigin(given) !== null,
        "must be a URL such as https://github.example.com, https and nothing but a host",
      )
      .optional(),
  }),
);
export type RepoHostFields = z.infer<ReturnType<typeof repoHostFields>>;

/** The create body's fields of a repo-host destination; unset and empty fields are absent. */
export const repoHostConnection = memo(
  (): z.ZodType<RepoHostConnection> =>
    repoHostFields()
      .superRefine((given, context) => checkRepoHost(given, context))
      .transform(connectionOf),
);

/** The rules between fields. */
export function checkRepoHost(given: RepoHostFields, context: z.core.$RefinementCtx): void {
  for (const [path, message] of problems(given)) context.addIssue({ code: "custom", path: [path], message });
}

export function connectionOf({ installation_id: id, ...rest }: RepoHostFields): RepoHostConnection {
  return { ...withoutUnset(rest), ...(id && { installation_id: Number(id) }) };
}

/** The connection with its defaults, and the enterprise address as an origin. */
export function resolveRepoHost({ enterprise_url: url, ...rest }: RepoHostConnection): RepoHostConnection {
  const origin = url === undefined ? null : enterpriseOrigin(url);
  return {
    secrets_location: "repository",
    application: "actions",
    ...rest,
    ...(origin !== null && { enterprise_url: origin }),
  };
}

/** Violations of the rules between fields. */
function* problems(given: RepoHostFields): Generator<[path: keyof RepoHostFields, message: string]> {
  if (!given.app_name !== !given.installation_id) {
    const missing = given.app_name ? "installation_id" : "app_name";
    yield [missing, "app_name and installation_id must be given together or not at all"];
  } else if (!given.access_token && !given.app_name) {
    yield ["access_token", "access_token, or app_name with installation_id, is required"];
  }

  if (given.environment_name && (given.application ?? "actions") !== "actions") {
    yield ["environment_name", "is only for application actions"];
  }

  const ofOrganization = ["organization_name", "organization_visibility", "selected_repository_names"] as const;
  const ofRepository = ["repository_owner", "repository_name", "environment_name"] as const;
  if (given.secrets_location !== "organization") {
    for (const field of ["repository_owner", "repository_name"] as const) {
      if (!given[field]) yield [field, "is required unless secrets_location is organization"];
    }
    for (const field of ofOrganization) {
      if (given[field]?.length) yield [field, "is only for secrets_location organization"];
    }
    return;
  }
  for (const field of ["organization_name", "organization_visibility"] as const) {
    if (!given[field]) yield [field, "is required when secrets_location is organization"];
  }
  for (const field of ofRepository) {
    if (given[field]) yield [field, "is only for secrets_location repository"];
  }
  const selected = given.organization_visibility === "selected";
  if (selected !== Boolean(given.selected_repository_names?.length)) {
    yield ["selected_repository_names", "is required when organization_visibility is selected, and only then"];
  }
}

/** The origin of an enterprise URL, without the API's path; null when it is no valid one. */
function enterpriseOrigin(given: string): string | null {
  const url = URL.parse(given);
  if (url === null || !/^\/(api\/v3\/?)?$/.test(url.pathname) || url.search || url.hash || url.username || url.password)
    return null;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname)) ? url.origin : null;
}
