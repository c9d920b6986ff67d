// 3LC's encoder (Lim, Andersen, Kaminsky, MLSys 2019, sections 3.1 to 3.3): thresholds, base-3^5,
// zero runs. Makes payloads of the modes ternary-zero-run and ternary-packed (docs/FORMAT.md,
// section 3.4), a planar column of five values a cycle. docs/HARDWARE.md says what the host does.
//
// Of a segment of n values a beat j, 0 <= j < L = ceil(n / 5), has the values j, L + j, ..., 4 L + j,
// the first one lowest. Where one does not exist, its four bits of tkeep are 0. One byte a beat
// comes out, tlast with the last of the payload. The cfg inputs are stable from the first beat of a
// segment until its last one has left. Five cycles go to the head of a segment, none to its end.
module tern_ternary_encode (
    input  logic         clk,
    input  logic         rst,
    input  logic [ 31:0] cfg_scale,      // m, float32
    input  logic [ 30:0] cfg_threshold,  // magnitudes above it, as bits of a float32, are sent
    input  logic         cfg_packed,     // without zero runs
    input  logic [159:0] s_axis_tdata,
    input  logic [ 19:0] s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    output logic [  7:0] m_axis_tdata,
    output logic [  0:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready
);
  localparam [7:0] MODE_ZERO_RUN = 8'h10, MODE_PACKED = 8'h11;
  localparam [7:0] ZERO = 8'd121, RUN_OF_2 = 8'd243, RUN_OF_14 = 8'd255;

  logic advance;  // all stages move

  // --- The head: mode and scale, which go through the stages as bytes of their own

  logic [2:0] head;
  logic       in_body;
  assign s_axis_tready = advance && in_body;

  logic [7:0] head_byte;
  always_comb begin
    case (head)
      3'd0: head_byte = cfg_packed ? MODE_PACKED : MODE_ZERO_RUN;
      3'd1: head_byte = cfg_scale[7:0];
      3'd2: head_byte = cfg_scale[15:8];
      3'd3: head_byte = cfg_scale[23:16];
      default: head_byte = cfg_scale[31:24];
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      head <= 0;
      in_body <= 0;
    end else if (advance && s_axis_tvalid) begin
      if (!in_body) begin
        head <= head + 1;
        in_body <= head == 4;
      end else if (s_axis_tlast) begin
        head <= 0;
        in_body <= 0;
      end
    end
  end

  // --- 1: each magnitude against the threshold, in two halves; 2: digits

  logic v1, v2, v3, v4;
  logic last1, last2, last3, last4;
  logic raw1, raw2, raw3;  // of the head
  logic runs1, runs2, runs3, runs4;
  logic [7:0] byte1, byte2, byte3, byte4;
  logic zero3, zero4;

  logic [4:0] high_above, high_equal, low_above, negative, real1;
  logic [9:0] digits2;
  always_ff @(posedge clk) begin
    if (advance) begin
      for (integer i = 0; i < 5; i = i + 1) begin
        high_above[i] <= s_axis_tdata[32*i+15+:16] > cfg_threshold[30:15];
        high_equal[i] <= s_axis_tdata[32*i+15+:16] == cfg_threshold[30:15];
        low_above[i] <= s_axis_tdata[32*i+:15] > cfg_threshold[14:0];
        negative[i] <= s_axis_tdata[32*i+31];
        real1[i] <= s_axis_tkeep[4*i];
        if (real1[i] && (high_above[i] || (high_equal[i] && low_above[i]))) begin
          digits2[2*i+:2] <= negative[i] ? 2'd0 : 2'd2;
        end else begin
          digits2[2*i+:2] <= 2'd1;
        end
      end
      last1 <= s_axis_tlast && in_body;
      raw1  <= !in_body;
      byte1 <= head_byte;
      runs1 <= !cfg_packed;
      {last2, raw2, byte2, runs2} <= {last1, raw1, byte1, runs1};
    end
  end

  // --- 3: two sums of digits; 4: the byte

  logic [7:0] high3;
  logic [4:0] low3;
  always_ff @(posedge clk) begin
    if (advance) begin
      high3 <= 8'd81 * {6'd0, digits2[1:0]} + 8'd27 * {6'd0, digits2[3:2]};
      low3  <= 5'd9 * {3'd0, digits2[5:4]} + 5'd3 * {3'd0, digits2[7:6]} + {3'd0, digits2[9:8]};
      zero3 <= digits2 == 10'b01_01_01_01_01;
      {last3, raw3, byte3, runs3} <= {last2, raw2, byte2, runs2};
      byte4 <= raw3 ? byte3 : high3 + {3'd0, low3};
      zero4 <= zero3 && !raw3;
      {last4, runs4} <= {last3, runs3};
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      {v1, v2, v3, v4} <= 0;
    end else if (advance) begin
      {v1, v2, v3, v4} <= {s_axis_tvalid, v1, v2, v3};
    end
  end

  // --- 5: the code that may still grow: it leaves when the next byte does not belong to it

  logic held, held_last, held_open;
  logic [7:0] held_code;
  logic joins, leaves;
  assign joins = held && held_open && !held_last && v4 && zero4 && runs4;
  assign leaves = held && (held_last || (v4 && !joins));

  always_ff @(posedge clk) begin
    if (rst) begin
      held <= 0;
    end else if (advance) begin
      held <= v4 || (held && !leaves);
    end
    if (advance && v4) begin
      held_last <= last4;
      if (joins) begin
        held_code <= held_code == ZERO ? RUN_OF_2 : held_code + 8'd1;
        held_open <= held_code != RUN_OF_14 - 8'd1;
      end else begin
        held_code <= byte4;
        held_open <= zero4;
      end
    end
  end

  tern_slice #(
      .WIDTH(9)
  ) out (
      .clk(clk),
      .rst(rst),
      .s_data({held_last, held_code}),
      .s_valid(leaves),
      .s_ready(advance),
      .m_data({m_axis_tlast, m_axis_tdata}),
      .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready)
  );
  assign m_axis_tkeep = 1'b1;
endmodule
