import type * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { accessToken, connectionSchema, optionalText, requiredText, wordList } from "../fields.ts";

const scopeNames: readonly string[] = ["builds", "functions", "runtime", "post-processing"];

const SCOPES_RULE = `must name some of ${scopeNames.join(", ")}`;
const scopes = () =>
  wordList(SCOPES_RULE)
    .transform((given) => given.sort())
    .refine((given) => given.every((one) => scopeNames.includes(one)), SCOPES_RULE)
    .optional();

const id = /^(?!\.{1,2}$)[\w.-]{1,100}$/;
const ID_RULE = "must be 1 to 100 letters, digits or characters of ._-";

/** Contexts in which values are shown to everyone of the team. */
const isOpen = (context: string): boolean => /^(all|dev|dev-server)$/.test(context);

/** A destination's connection to its team or site. */
export const deploySiteConnection = connectionSchema(
  () => ({
    access_token: accessToken(),
    account_id: requiredText(id, ID_RULE),
    site_id: optionalText(id, ID_RULE),
    deploy_context: requiredText(
      /^(all|dev|dev-server|branch-deploy|deploy-preview|production|branch:[^\s\x00-\x1f\x7f]{1,244})$/,
      "must be all, dev, dev-server, branch-deploy, deploy-preview, production or branch:NAME",
    ),
    is_secret: flag().optional(),
    scopes: scopes(),
  }),
  (given, refuse) => {
    if (given.is_secret && isOpen(given.deploy_context))
      refuse("is_secret", "is impossible in the contexts all and dev");
    if (given.is_secret !== false && !isOpen(given.deploy_context) && given.scopes?.includes("post-processing")) {
      refuse("scopes", "secret variables have no scope post-processing");
    }
  },
);
export type DeploySiteConnection = z.infer<ReturnType<typeof deploySiteConnection>>;

/** Whether new variables are secret. */
export const isSecret = ({ deploy_context: context, is_secret = !isOpen(context) }: DeploySiteConnection): boolean =>
  is_secret;
