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
const groupFields = "id,displayName";

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
  const find = <T>(operation: Operation, kind: string, filter: string, fields: string, item: z.ZodType<T>) =>
    graph.list(operation, { method: "GET", path: `/v1.0/${kind}`, query: { $filter: filter, $select: fields } }, item);
  const findApplications = (filter: string) =>
    find(operations.findApplications, "applications", filter, applicationFields, AnApplication);
  const get = <T>(operation: Operation, at: string | null, fields: string, answer: z.ZodType<T>) =>
    graph.call(operation, { method: "GET", path: at, query: { $select: fields } }, answer);
  const post = <T>(operation: Operation, at: string | null, body: Body, answer: z.ZodType<T>) =>
    graph.call(operation, { method: "POST", path: at, body }, answer);
  const remove = (operation: Operation, at: string | null) =>
    graph.call(operation, { method: "DELETE", path: at }, nothing);
  return {
    getApplication: (objectId) =>
      get(operations.getApplication, path`/v1.0/applications/${objectId}`, applicationFields, AnApplication),
    findApplicationsByClientId: (clientId) => findApplications(`appId eq ${quoted(clientId)}`),
    findApplicationsByName: (displayName) => findApplications(`displayName eq ${quoted(displayName)}`),
    createApplication({ displayName, tags, signInAudience }) {
      const body = { displayName, ...settable(tags, signInAudience) };
      return post(operations.createApplication, "/v1.0/applications", body, AnApplication);
    },
    updateApplication: (objectId, { tags, signInAudience }) =>
      graph.call(
        operations.updateApplication,
        { method: "PATCH", path: path`/v1.0/applications/${objectId}`, body: settable(tags, signInAudience) },
        nothing,
      ),
    deleteApplication: (objectId) => remove(operations.deleteApplication, path`/v1.0/applications/${objectId}`),
    purgeDeleted: (objectId) => remove(operations.purgeDeleted, path`/v1.0/directory/deletedItems/${objectId}`),
    addApplicationPassword(objectId, { displayName, endsAt }) {
      const body = { passwordCredential: { displayName, endDateTime: date(endsAt) } };
      return post(operations.addApplicationPassword, path`/v1.0/applications/${objectId}/addPassword`, body, APassword);
    },
    removeApplicationPassword(objectId, keyId) {
      const at = isUuid(keyId) ? path`/v1.0/applications/${objectId}/removePassword` : null;
      return post(operations.removeApplicationPassword, at, { keyId }, nothing);
    },
    createServicePrincipal: (clientId) =>
      post(operations.createServicePrincipal, "/v1.0/servicePrincipals", { appId: clientId }, APrincipal),
    findServicePrincipals: (clientId) =>
      find(operations.findServicePrincipals, "servicePrincipals", `appId eq ${quoted(clientId)}`, "id", APrincipal),
    addPrincipalPassword(objectId, { startsAt, endsAt }) {
      const body = { passwordCredential: { startDateTime: date(startsAt), endDateTime: date(endsAt) } };
      return post(
        operations.addPrincipalPassword,
        path`/v1.0/servicePrincipals/${objectId}/addPassword`,
        body,
        APassword,
      );
    },
    deleteServicePrincipal: (objectId) =>
      remove(operations.deleteServicePrincipal, path`/v1.0/servicePrincipals/${objectId}`),
    getGroup: (objectId) => get(operations.getGroup, path`/v1.0/groups/${objectId}`, groupFields, AGroup),
    findGroups: (name) => find(operations.findGroups, "groups", `displayName eq ${quoted(name)}`, groupFields, AGroup),
    addGroupMember(groupId, principalId) {
      const at = isUuid(principalId) ? path`/v1.0/groups/${groupId}/members/$ref` : null;
      const body = { "@odata.id": `${graphUrl}/v1.0/directoryObjects/${principalId}` };
      return post(operations.addGroupMember, at, body, nothing);
    },
    removeGroupMember: (groupId, principalId) =>
      // Without "$ref" this would delete the member itself.
      remove(operations.removeGroupMember, path`/v1.0/groups/${groupId}/members/${principalId}/$ref`),
  };
}

type Body = Readonly<Record<string, unknown>>;

const settable = (tags: readonly string[], signInAudience: string) => ({
  tags,
  ...(signInAudience !== "" && { signInAudience }),
});
