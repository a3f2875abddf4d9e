import * as z from "zod";
import { accessToken, optionalText, withoutUnset } from "../fields.ts";
import { optionalAddress } from "../listed-host.ts";

/** A destination's connection to its context or project: one of the two. Unset fields are absent. */
export interface CiContextConnection {
  access_token: string;
  context_id?: string;
  project_slug?: string;
  /** An origin. */
  address?: string;
}

export const ciContextConnection = () =>
  z
    .object({
      access_token: accessToken(),
      context_id: optionalText(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "must be the context's id, a UUID"),
      project_slug: optionalText(
        /^(?!.*\.\.)[\w-]{1,32}(\/[\w.-]{1,128}){2}$/,
        "must look like gh/acme/web: a system, an organization and a project",
      ),
      address: optionalAddress(),
    })
    .superRefine((given, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: "custom", path: [field], message });
      if (!given.context_id && !given.project_slug) refuse("context_id", "is required, or project_slug");
      if (given.context_id && given.project_slug) refuse("project_slug", "cannot be set together with context_id");
    })
    .transform((given) => withoutUnset(given) as unknown as CiContextConnection);
