import * as z from "zod";
import type { Application, Directory, Group, NewPassword, ServicePrincipal } from "./directory.ts";
import type { Operation } from "./errors.ts";
import { isUuid, nothing, quoted, type Service } from "./service.ts";

const Uuid = z.string().refine(isUuid);
const Text = z
  .string()
  .nullish()
  .transform((text) => text ?? "");
const Moment = z
  .string()
  .transform((text) => Date.parse(text))
  .refine((time) => !Number.isNaN(time));

const AnApplication: z.ZodType<Application> = z
  .object({
    id: Uuid,
    appId: Uuid,
    displayName: Text,
    passwordCredentials: z
      .array(z.object({ keyId: Uuid, displayName: Text, hint: Text, endDateTime: Moment.nullish() }))
      .default([]),
  })
  .transform(({ id, appId, displayName, passwordCredentials }) => ({
    objectId: id,
    clientId: appId,
    displayName,
    passwords: passwordCredentials.map(({ endDateTime, ...password }) => ({
      ...password,
      endsAt: endDateTime ?? null,
    })),
  }));

const APrincipal: z.ZodType<ServicePrincipal> = z.object({ id: Uuid }).transform(({ id }) => ({ objectId: id }));

const AGroup: z.ZodType<Group> = z
  .object({ id: Uuid, displayName: Text })
  .transform(({ id, displayName }) => ({ objectId: id, name: displayName }));

const APassword: z.ZodType<NewPassword> = z
  .object({ keyId: Uuid, secretText: z.string().min(1), endDateTime: Moment })
  .transform(({ keyId, secretText, endDateTime }) => ({ keyId, secretText, endsAt: endDateTime }));

const applicationFields = "id,appId,displayName,passwordCredentials";

const permission = (name: string) =>
  `the engine's application the Microsoft Graph application permission ${name}, with admin consent`;
const owned = permission("Application.ReadWrite.OwnedBy");
const any = permission(
  "Application.ReadWrite.All, or make it an owner of the application and grant Application.ReadWrite.OwnedBy",
);
const members = permission(
  "GroupMember.ReadWrite.All (RoleManagement.ReadWrite.Directory, too, for groups that hold roles)",
);

const reading = (name: string, missing: string, grant: string): Operation => ({ name, reads: true, grant, missing });
const writing = (name: string, missing: string, grant: string): Operation => ({ name, reads: false, grant, missing });

const operations = {
  getApplication: reading("Reading the application", "application with this object id", any),
  findApplications: reading("Looking for the application", "application like this", any),
  createApplication: writing("Creating an application", "directory to create it in", owned),
  updateApplication: writing("Updating the application", "application with this object id", any),
  deleteApplication: writing("Deleting the application", "application with this object id", any),
  purgeDeleted: writing("Purging the deleted object", "deleted object with this id", any),
  addApplicationPassword: writing("Adding a password to the application", "application with this object id", any),
  removeApplicationPassword: writing(
    "Removing a password of the application",
    "application with this object id or no such password",
    any,
  ),
  createServicePrincipal: writing("Creating a service principal", "application with this client id", owned),
  findServicePrincipals: reading("Looking for the service principal", "service principal like this", owned),
  addPrincipalPassword: writing("Adding a password to the service principal", "service principal with this id", owned),
  deleteServicePrincipal: writing("Deleting the service principal", "service principal with this id", owned),
  getGroup: reading("Reading the group", "group with this object id", members),
  findGroups: reading("Looking for the group", "group like this", members),
  addGroupMember: writing(
    "Adding the service principal to the group",
    "group or service principal with this id",
    `${members}, or name another group if this one's members follow from a rule`,
  ),
  removeGroupMember: writing("Removing the service principal from the group", "such group or member", members),
};

/** A path made of object ids; null when one of them is invalid. */
const path = (texts: TemplateStringsArray, ...ids: string[]): string | null =>
  ids.every(isUuid) ? String.raw({ raw: texts }, ...ids) : null;

const date = (ms: number): string => new Date(ms).toISOString();

/**
 * The directory, by Microsoft Graph v1.0.
 * @param graphUrl the cloud's own address of Graph, used in references even when requests are sent elsewhere
 */
export function directory(graph: Service, graphUrl: string): Directory {
  const findApplications = (filter: string) =>
    graph.list(
      operations.findApplications,
      { method: "GET", path: "/v1.0/applications", query: { $filter: filter, $select: applicationFields } },
      AnApplication,
    );
  return {
    getApplication: (objectId) =>
      graph.call(
        operations.getApplication,
        { method: "GET", path: path`/v1.0/applications/${objectId}`, query: { $select: applicationFields } },
        AnApplication,
      ),
    findApplicationsByClientId: (clientId) => findApplications(`appId eq ${quoted(clientId)}`),
    findApplicationsByName: (displayName) => findApplications(`displayName eq ${quoted(displayName)}`),
    createApplication: ({ displayName, tags, signInAudience }) =>
      graph.call(
        operations.createApplication,
        { method: "POST", path: "/v1.0/applications", body: { displayName, ...settable(tags, signInAudience) } },
        AnApplication,
      ),
    updateApplication: (objectId, { tags, signInAudience }) =>
      graph.call(
        operations.updateApplication,
        { method: "PATCH", path: path`/v1.0/applications/${objectId}`, body: settable(tags, signInAudience) },
        nothing,
      ),
    deleteApplication: (objectId) =>
      graph.call(
        operations.deleteApplication,
        { method: "DELETE", path: path`/v1.0/applications/${objectId}` },
        nothing,
      ),
    purgeDeleted: (objectId) =>
      graph.call(
        operations.purgeDeleted,
        { method: "DELETE", path: path`/v1.0/directory/deletedItems/${objectId}` },
        nothing,
      ),
    addApplicationPassword: (objectId, { displayName, endsAt }) =>
      graph.call(
        operations.addApplicationPassword,
        {
          method: "POST",
          path: path`/v1.0/applications/${objectId}/addPassword`,
          body: { passwordCredential: { displayName, endDateTime: date(endsAt) } },
        },
        APassword,
      ),
    removeApplicationPassword: (objectId, keyId) =>
      graph.call(
        operations.removeApplicationPassword,
        {
          method: "POST",
          path: isUuid(keyId) ? path`/v1.0/applications/${objectId}/removePassword` : null,
          body: { keyId },
        },
        nothing,
      ),
    createServicePrincipal: (clientId) =>
      graph.call(
        operations.createServicePrincipal,
        { method: "POST", path: "/v1.0/servicePrincipals", body: { appId: clientId } },
        APrincipal,
      ),
    findServicePrincipals: (clientId) =>
      graph.list(
        operations.findServicePrincipals,
        {
          method: "GET",
          path: "/v1.0/servicePrincipals",
          query: { $filter: `appId eq ${quoted(clientId)}`, $select: "id" },
        },
        APrincipal,
      ),
    addPrincipalPassword: (objectId, { startsAt, endsAt }) =>
      graph.call(
        operations.addPrincipalPassword,
        {
          method: "POST",
          path: path`/v1.0/servicePrincipals/${objectId}/addPassword`,
          body: { passwordCredential: { startDateTime: date(startsAt), endDateTime: date(endsAt) } },
        },
        APassword,
      ),
    deleteServicePrincipal: (objectId) =>
      graph.call(
        operations.deleteServicePrincipal,
        { method: "DELETE", path: path`/v1.0/servicePrincipals/${objectId}` },
        nothing,
      ),
    getGroup: (objectId) =>
      graph.call(
        operations.getGroup,
        { method: "GET", path: path`/v1.0/groups/${objectId}`, query: { $select: "id,displayName" } },
        AGroup,
      ),
    findGroups: (name) =>
      graph.list(
        operations.findGroups,
        {
          method: "GET",
          path: "/v1.0/groups",
          query: { $filter: `displayName eq ${quoted(name)}`, $select: "id,displayName" },
        },
        AGroup,
      ),
    addGroupMember: (groupId, principalId) =>
      graph.call(
        operations.addGroupMember,
        {
          method: "POST",
          path: isUuid(principalId) ? path`/v1.0/groups/${groupId}/members/$ref` : null,
          body: { "@odata.id": `${graphUrl}/v1.0/directoryObjects/${principalId}` },
        },
        nothing,
      ),
    removeGroupMember: (groupId, principalId) =>
      graph.call(
        operations.removeGroupMember,
        // Without "$ref" this would delete the member itself.
        { method: "DELETE", path: path`/v1.0/groups/${groupId}/members/${principalId}/$ref` },
        nothing,
      ),
  };
}

const settable = (tags: readonly string[], signInAudience: string) => ({
  tags,
  ...(signInAudience !== "" && { signInAudience }),
});
