import type * as z from "zod";
import { flag } from "../../../platform/http/fields.ts";
import { accessToken, choice, connectionSchema, optionalText } from "../fields.ts";
import { optionalAddress } from "../listed-host.ts";

const id = () =>
  optionalText(
    /^(?!.*\.\.)[\w.-]+(\/[\w.-]+){0,20}$/,
    "must be a number or a path of letters, digits or characters of ._- with slashes between",
  );

/** A destination's connection to its project, group or instance. */
export const ciVariablesConnection = connectionSchema(
  () => ({
    access_token: accessToken(),
    /** Absent: the project, or the group without one. */
    location: choice("project", "group", "instance"),
    project_id: id(),
    group_id: id(),
    environment_scope: optionalText(
      /^[\w /$%{}.*-]{1,255}$/,
      "must be at most 255 letters, digits, spaces or characters of -_/$%{}.*",
    ),
    address: optionalAddress(),
    masking: choice("required", "best-effort", "off"),
    hidden: flag().optional(),
    protected: flag().optional(),
    raw: flag().optional(),
    variable_type: choice("env_var", "file"),
  }),
  (given, refuse) => {
    const location = given.location || (given.group_id && !given.project_id ? "group" : "project");
    if (location === "project" && !given.project_id)
      refuse("project_id", "is required, or group_id, or location instance");
    if (location === "group" && !given.group_id) refuse("group_id", "is required when location is group");
    if (location !== "project" && given.project_id) refuse("project_id", "is only for location project");
    if (location !== "group" && given.group_id) refuse("group_id", "is only for location group");
    if (location === "instance" && given.environment_scope) {
      refuse("environment_scope", "variables of an instance have none");
    }
    if (location === "instance" && given.hidden) refuse("hidden", "variables of an instance cannot be hidden");
    if (given.hidden && given.masking === "off") refuse("masking", "a hidden variable is always masked");
  },
);
export type CiVariablesConnection = z.infer<ReturnType<typeof ciVariablesConnection>>;
