// Writes src/api.ts, the bodies of what the client calls, from a running API's URL or its OpenAPI document in a file:
//   node types.mjs http://127.0.0.1:8420
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const CALLED = ["messages", "events", "context", "search", "memories", "users", "forget", "chats/{chat_id}/messages"];

const [source, target = new URL("src/api.ts", import.meta.url)] = process.argv.slice(2);
const document = JSON.parse(source.startsWith("http") ? await (await fetch(`${source}/openapi.json`)).text() : await readFile(source));
const isCalled = (path) => CALLED.some((room) => path.split("/v1/")[1]?.match(/^chats\/[^/]+\/[^/]+|^[^/]+/)?.[0] === room);
const schemas = {};
const keep = (value) => {
  for (const [, name] of JSON.stringify(value).matchAll(/#\/components\/schemas\/(\w+)/g))
    if (!schemas[name]) keep((schemas[name] = document.components.schemas[name]));
};
keep(Object.entries(document.paths).filter(([path]) => isCalled(path)));
document.paths = {};
document.components.schemas = Object.fromEntries(Object.entries(schemas).sort());
const nodes = await openapiTS(document, { defaultNonNullable: false, alphabetize: true });
await writeFile(target, `// Written by types.mjs from the API's OpenAPI document.\n${astToString(nodes)}`);
