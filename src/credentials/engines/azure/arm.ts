import * as z from "zod";
import type { Resources, RoleDefinition } from "./directory.ts";
import type { Operation } from "./errors.ts";
import { isUuid, nothing, quoted, type Service } from "./service.ts";

const definitionsVersion = "2022-05-01-preview";
const assignmentsVersion = "2022-04-01";
const authorization = "providers/Microsoft.Authorization";

const ADefinition: z.ZodType<RoleDefinition> = z
  .object({ id: z.string().min(1), properties: z.object({ roleName: z.string() }) })
  .transform(({ id, properties }) => ({ id, name: properties.roleName }));

const AnAssignment = z.object({ id: z.string().min(1) });

const reader = "the engine's application the role Reader on the subscription";
const administrator = (scope: string) =>
  `the engine's application the role User Access Administrator or Owner on ${scope}`;

const getting: Operation = {
  name: "Reading the role definition",
  reads: true,
  grant: reader,
  missing: "role definition with this id",
};
const finding: Operation = { ...getting, name: "Looking for the role definition", missing: "such subscription" };
const creating = (scope: string): Operation => ({
  name: "Assigning the role",
  reads: false,
  grant: administrator(scope),
  missing: "such scope or role definition",
});
const deleting: Operation = {
  name: "Removing the role assignment",
  reads: false,
  grant: administrator("the assignment's scope"),
  missing: "such role assignment",
};

/** Roles and role assignments, by Azure Resource Manager. Roles are searched in the subscription, whose id is a UUID. */
export function resources(arm: Service, subscriptionId: string): Resources {
  const definitions = `/subscriptions/${subscriptionId}/${authorization}/roleDefinitions`;
  return {
    getRoleDefinition: (id) =>
      arm.call(
        getting,
        {
          method: "GET",
          path: isUuid(id) ? `${definitions}/${id}` : definitionPath(id),
          query: { "api-version": definitionsVersion },
        },
        ADefinition,
      ),
    findRoleDefinitions: (name) =>
      arm.list(
        finding,
        {
          method: "GET",
          path: definitions,
          query: { $filter: `roleName eq ${quoted(name)}`, "api-version": definitionsVersion },
        },
        ADefinition,
      ),
    createRoleAssignment({ scope, assignmentId, roleDefinitionId, principalId }) {
      const at = resourcePath(scope);
      return arm.call(
        creating(at || "/"),
        {
          method: "PUT",
          path: at === null || !isUuid(assignmentId) ? null : `${at}/${authorization}/roleAssignments/${assignmentId}`,
          query: { "api-version": assignmentsVersion },
          // With `principalType` the provider skips the lookup of the principal, which may not be replicated yet.
          body: { properties: { roleDefinitionId, principalId, principalType: "ServicePrincipal" } },
        },
        AnAssignment,
      );
    },
    deleteRoleAssignment: (id) =>
      arm.call(
        deleting,
        { method: "DELETE", path: assignmentPath(id), query: { "api-version": assignmentsVersion } },
        nothing,
      ),
  };
}

/** The path of a scope or an object; "" for "/", the whole tenant. Null when it is invalid or could leave its scope. */
function resourcePath(id: string): string | null {
  if (id === "/") return "";
  const bare = id.replace(/^\/+|\/+$/g, "");
  const segments = bare.split("/");
  const usable = /^(subscriptions|providers)$/i.test(segments[0] ?? "") && segments.length > 1;
  // encodeURIComponent keeps dots, and URLs resolve segments of one or two dots.
  return usable && bare.isWellFormed() && segments.every((one) => one !== "" && !/^\.{1,2}$/.test(one))
    ? `/${segments.map(encodeURIComponent).join("/")}`
    : null;
}

/** The path of a role assignment; null for any other id, so that a stored id can delete assignments only. */
const assignmentPath = (id: string): string | null => pathOf(id, "roleAssignments");
const definitionPath = (id: string): string | null => pathOf(id, "roleDefinitions");

function pathOf(id: string, kind: string): string | null {
  const [last = "", ...rest] = id.split("/").reverse();
  const [type, namespace, providers] = rest.map((one) => one.toLowerCase());
  const fits = type === kind.toLowerCase() && namespace === "microsoft.authorization" && providers === "providers";
  return fits && isUuid(last) ? resourcePath(id) : null;
}
