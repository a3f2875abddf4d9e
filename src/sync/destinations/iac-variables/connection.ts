import * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { accessToken, choice, optionalText, withoutUnset } from "../fields.ts";
import { optionalAddress } from "../listed-host.ts";

/** A destination's connection to its workspace or variable set: one of the two. Unset fields are absent. */
export interface IacVariablesConnection {
  access_token: string;
  workspace_id?: string;
  varset_id?: string;
  category?: "env" | "terraform";
  sensitive?: boolean;
  hcl?: boolean;
  /** An origin. */
  address?: string;
}

export const iacVariablesConnection = () =>
  z
    .object({
      access_token: accessToken(),
      workspace_id: optionalText(/^ws-[A-Za-z0-9]{1,64}$/, "must be the workspace's id, such as ws-SihZTyXKfNXUWuUa"),
      varset_id: optionalText(/^varset-[A-Za-z0-9]{1,64}$/, "must be the set's id, such as varset-mio9UUFyFMjU33S4"),
      category: choice("env", "terraform"),
      sensitive: flag().optional(),
      hcl: flag().optional(),
      address: optionalAddress(),
    })
    .superRefine((given, context) => {
      const refuse = (field: string, message: string) => context.addIssue({ code: "custom", path: [field], message });
      if (!given.workspace_id && !given.varset_id) refuse("workspace_id", "is required, or varset_id");
      if (given.workspace_id && given.varset_id) refuse("varset_id", "cannot be set together with workspace_id");
      if (given.hcl && given.category !== "terraform") refuse("hcl", "is only for category terraform");
    })
    .transform((given) => withoutUnset(given) as unknown as IacVariablesConnection);
