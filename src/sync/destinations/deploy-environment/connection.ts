import * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { accessToken, choice, optionalText, requiredText, withoutUnset } from "../fields.ts";

/** A destination's connection to its service or environment. Unset fields are absent. */
export interface DeployEnvironmentConnection {
  access_token: string;
  token_type?: "project" | "workspace";
  project_id: string;
  environment_id: string;
  service_id?: string;
  skip_deploys?: boolean;
}

const id = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export const deployEnvironmentConnection = () =>
  z
    .object({
      access_token: accessToken(),
      token_type: choice("project", "workspace"),
      project_id: requiredText(id, "must be the project's id, a UUID"),
      environment_id: requiredText(id, "must be the environment's id, a UUID"),
      service_id: optionalText(id, "must be the service's id, a UUID"),
      skip_deploys: flag().optional(),
    })
    .transform((given) => withoutUnset(given) as unknown as DeployEnvironmentConnection);
