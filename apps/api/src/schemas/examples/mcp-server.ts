export const MCP_SERVER = {
  id: 'mcp_server-01989d2e-7a01-7000-8000-000000000010',
  server_name: 'tickets',
  mcp_server_type: 'streamable_http',
  server_url: 'https://mcp.example.com/mcp',
  auth_header: 'Authorization',
  auth_token: 'Bearer {{secrets.TICKETS_TOKEN}}',
  custom_headers: {},
  revision: '2026-07-28',
  refreshed_at: '2026-11-28T01:00:00.000Z',
  created_at: '2026-11-28T01:00:00.000Z',
  updated_at: '2026-11-28T01:00:00.000Z',
};
