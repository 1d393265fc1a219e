export { buildServer } from './server.ts';
