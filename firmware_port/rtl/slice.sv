// The end of every pipeline here: two registers, so that neither data nor tready of a stream pass
// through without one. s_ready is a register: it enables all stages before it.
module tern_slice #(
    parameter WIDTH = 8
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] s_data,
    input  logic             s_valid,
    output logic             s_ready,
    output logic [WIDTH-1:0] m_data,
    output logic             m_valid,
    input  logic             m_ready
);
  logic [WIDTH-1:0] spare;

  always_ff @(posedge clk) begin
    if (m_ready || !m_valid) begin
      m_data <= s_ready ? s_data : spare;
    end
    if (s_ready) begin
      spare <= s_data;
    end
    if (rst) begin
      m_valid <= 0;
      s_ready <= 1;
    end else if (m_ready || !m_valid) begin
      m_valid <= s_valid || !s_ready;
      s_ready <= 1;
    end else if (s_valid) begin
      s_ready <= 0;
    end
  end
endmodule
