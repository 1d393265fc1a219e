export { keepApiKey, type KeptKey } from './api-key.ts';
export { API_VERSION, buildServer, type ServerDeps } from './server.ts';
