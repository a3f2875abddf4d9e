import * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { accessToken, optionalText, requiredText, withoutUnset } from "../fields.ts";

export const scopeNames = ["builds", "functions", "runtime", "post-processing"] as const;

/** A destination's connection to its team or site. Unset fields are absent. */
export interface DeploySiteConnection {
  access_token: string;
  account_id: string;
  site_id?: string;
  /** A branch is spelled `branch:NAME`. */
  deploy_context: string;
  is_secret?: boolean;
  scopes?: (typeof scopeNames)[number][];
}

const SCOPES_RULE = `must name some of ${scopeNames.join(", ")}`;
const scopes = () =>
  z
    .union([z.array(z.string()), z.string().transform((given) => given.split(","))], SCOPES_RULE)
    .transform((given) => [...new Set(given.map((one) => one.trim()).filter((one) => one !== ""))].sort())
    .refine((given) => given.every((one) => scopeNames.some((known) => known === one)), SCOPES_RULE)
    .optional();

const id = /^(?!\.{1,2}$)[\w.-]{1,100}$/;
const ID_RULE = "must be 1 to 100 letters, digits or characters of ._-";

/** Contexts in which values are shown to everyone of the team. */
const isOpen = (context: string): boolean => /^(all|dev|dev-server)$/.test(context);

/** Whether new variables are secret. */
export const isSecret = ({ deploy_context: context, is_secret = !isOpen(context) }: DeploySiteConnection): boolean =>
  is_secret;

export const deploySiteConnection = () =>
  z
    .object({
      access_token: accessToken(),
      account_id: requiredText(id, ID_RULE),
      site_id: optionalText(id, ID_RULE),
      deploy_context: requiredText(
        /^(all|dev|dev-server|branch-deploy|deploy-preview|production|branch:[^\s\x00-\x1f\x7f]{1,244})$/,
        "must be all, dev, dev-server, branch-deploy, deploy-preview, production or branch:NAME",
      ),
      is_secret: flag().optional(),
      scopes: scopes(),
    })
    .superRefine((given, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: "custom", path: [field], message });
      if (given.is_secret && isOpen(given.deploy_context))
        refuse("is_secret", "is impossible in the contexts all and dev");
      if (given.is_secret !== false && !isOpen(given.deploy_context) && given.scopes?.includes("post-processing")) {
        refuse("scopes", "secret variables have no scope post-processing");
      }
    })
    .transform((given) => withoutUnset(given) as unknown as DeploySiteConnection);
