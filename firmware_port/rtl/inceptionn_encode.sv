// INCEPTIONN's compressor (Li et al., MICRO 2018): a burst of eight float32 values a cycle. Makes
// payloads of the modes inceptionn-bounded and inceptionn-literal (docs/FORMAT.md, section 3.7).
// docs/HARDWARE.md says what the host does.
//
// A beat in has the next eight values, the first one lowest, or fewer in the last, as tkeep says. A
// beat out has 32 bytes of the payload, or fewer in the last. tuser comes with tlast: bit 0, a value
// decodes to other than 0 (else the payload is mode zero); bit 1, a value was NaN or infinite (then
// there is no payload). The cfg inputs are stable from a cycle before the first beat of a segment
// until its last one has left. A group of eight may take 34 bytes: where all do, one cycle of sixteen goes to that.
module tern_inceptionn_encode (
    input  logic         clk,
    input  logic         rst,
    input  logic         cfg_literal,
    input  logic [  4:0] cfg_bound,      // c: 4 to 20
    input  logic [255:0] s_axis_tdata,
    input  logic [ 31:0] s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    output logic [255:0] m_axis_tdata,
    output logic [ 31:0] m_axis_tkeep,
    output logic         m_axis_tlast,
    output logic [  1:0] m_axis_tuser,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready
);
  localparam LANES = 8, STAGES = 10;
  localparam [7:0] MODE_BOUNDED = 8'h50, MODE_LITERAL = 8'h51;

  logic advance;  // all stages but the last one move
  assign s_axis_tready = advance;

  logic unused;
  assign unused = ^s_axis_tkeep;  // of four bits the lowest one counts

  // --- What goes with a group through the stages

  logic [STAGES:1] valid, last;
  always_ff @(posedge clk) begin
    if (rst) begin
      valid <= 0;
    end else if (advance) begin
      valid <= {valid[STAGES-1:1], s_axis_tvalid};
    end
    if (advance) begin
      last <= {last[STAGES-1:1], s_axis_tlast};
    end
  end

  // --- 1 to 6: each value by itself

  logic [LANES*2-1:0] tags;
  logic [LANES*32-1:0] fields;
  logic [LANES-1:0] any, non_finite;
  genvar i;
  generate
    for (i = 0; i < LANES; i = i + 1) begin : lane
      tern_inceptionn_code code (
          .clk(clk),
          .advance(advance),
          .literal(cfg_literal),
          .bound(cfg_bound),
          .bits(s_axis_tdata[32*i+:32]),
          .present(s_axis_tkeep[4*i]),
          .tag(tags[2*i+:2]),
          .field(fields[32*i+:32]),
          .any(any[i]),
          .non_finite(non_finite[i])
      );
    end
  endgenerate

  // --- 7 to 9: fields side by side; of two, the second one follows the bytes of the first

  function automatic [2:0] size_of(input logic [1:0] tag);
    size_of = tag == 2'd3 ? 3'd4 : {1'b0, tag};
  endfunction

  logic [4*64-1:0] pairs7;
  logic [4*4-1:0] sizes7;
  logic [2*128-1:0] quads8;
  logic [2*5-1:0] sizes8;
  logic [255:0] all9;
  logic [5:0] size9;
  logic [15:0] tags7, tags8, tags9;
  logic [1:0] facts7, facts8, facts9;
  integer k;
  always_ff @(posedge clk) begin
    if (advance) begin
      for (k = 0; k < 4; k = k + 1) begin
        pairs7[64*k+:64] <= {32'd0, fields[64*k+:32]} | after_value(fields[64*k+32+:32], tags[4*k+:2]);
        sizes7[4*k+:4] <= {1'b0, size_of(tags[4*k+:2])} + {1'b0, size_of(tags[4*k+2+:2])};
      end
      for (k = 0; k < 2; k = k + 1) begin
        quads8[128*k+:128] <= {64'd0, pairs7[128*k+:64]}
                            | ({64'd0, pairs7[128*k+64+:64]} << {sizes7[8*k+:4], 3'd0});
        sizes8[5*k+:5] <= {1'b0, sizes7[8*k+:4]} + {1'b0, sizes7[8*k+4+:4]};
      end
      all9 <= {128'd0, quads8[127:0]} | ({128'd0, quads8[255:128]} << {sizes8[4:0], 3'd0});
      size9 <= {1'b0, sizes8[4:0]} + {1'b0, sizes8[9:5]};
      {tags9, tags8, tags7} <= {tags8, tags7, tags};
      {facts9, facts8, facts7} <= {facts8, facts7, |non_finite, |any};
    end
  end

  function automatic [63:0] after_value(input logic [31:0] field, input logic [1:0] tag);
    case (tag)
      2'd0: after_value = {32'd0, field};
      2'd1: after_value = {24'd0, field, 8'd0};
      2'd2: after_value = {16'd0, field, 16'd0};
      default: after_value = {field, 32'd0};
    endcase
  endfunction

  // --- 10: tags, and the head, before them

  logic first9;  // of a segment
  logic [287:0] group10;
  logic [5:0] size10;
  logic [1:0] facts10;
  always_ff @(posedge clk) begin
    if (rst) begin
      first9 <= 1;
    end else if (advance && valid[9]) begin
      first9 <= last[9];
    end
    if (advance) begin
      facts10 <= facts9;
      if (!first9) begin
        group10 <= {16'd0, all9, tags9};
        size10  <= size9 + 6'd2;
      end else if (cfg_literal) begin
        group10 <= {8'd0, all9, tags9, MODE_LITERAL};
        size10  <= size9 + 6'd3;
      end else begin
        group10 <= {all9, tags9, 3'd0, cfg_bound, MODE_BOUNDED};
        size10  <= size9 + 6'd4;
      end
    end
  end

  // --- 11 and 12: to its place behind the bytes that wait

  logic [4:0] place, place11;
  logic [5:0] size11;
  logic [6:0] end12;
  logic [343:0] near11;
  logic [519:0] far12;
  logic v11, v12, last11, last12;
  logic [1:0] facts11, facts12;
  logic unused_carry;
  logic [4:0] next_place;
  assign {unused_carry, next_place} = {1'b0, place} + size10;
  always_ff @(posedge clk) begin
    if (rst) begin
      {v11, v12} <= 0;
      place <= 0;
    end else if (advance) begin
      {v11, v12} <= {valid[10], v11};
      if (valid[10]) begin
        place <= last[10] ? 5'd0 : next_place;
      end
    end
    if (advance) begin
      near11 <= {56'd0, group10} << {place[2:0], 3'd0};
      {place11, size11, last11, facts11} <= {place, size10, last[10], facts10};
      far12 <= {176'd0, near11} << {place11[4:3], 6'd0};
      end12 <= {2'd0, place11} + {1'b0, size11};
      {last12, facts12} <= {last11, facts11};
    end
  end

  // --- 13: whole beats

  logic ready;  // of what follows
  logic more;  // bytes wait that must leave before the next group comes
  logic [255:0] waiting;
  logic [7:0] beyond;  // byte 64
  logic [5:0] left;  // bytes of waiting and beyond
  logic ends;  // left are the last ones
  logic [1:0] facts;  // of the segment
  logic takes, beat, beat_last;
  logic [519:0] joined;
  logic [5:0] beat_size;
  logic [1:0] facts_now;
  assign advance = ready && !more;
  assign takes = v12 && !more;
  assign joined = far12 | {264'd0, waiting};
  assign beat = more || (takes && (last12 || end12 >= 7'd32));
  assign beat_last = more ? ends && left <= 6'd32 : last12 && end12 <= 7'd32;
  assign beat_size = more ? (left > 6'd32 ? 6'd32 : left) : (end12 > 7'd32 ? 6'd32 : end12[5:0]);
  assign facts_now = more ? facts : facts | facts12;
  always_ff @(posedge clk) begin
    if (rst) begin
      more <= 0;
      waiting <= 0;
      beyond <= 0;
      facts <= 0;
    end else if (ready) begin
      if (more) begin
        waiting <= ends && left <= 6'd32 ? 256'd0 : {248'd0, beyond};
        beyond <= 0;
        more <= ends && left > 6'd32;
        facts <= beat_last ? 2'd0 : facts;
      end else if (v12) begin
        waiting <= end12 >= 7'd32 ? joined[511:256] : beat_last ? 256'd0 : joined[255:0];
        beyond <= joined[519:512];
        more <= end12 >= 7'd64 || (last12 && end12 > 7'd32);
        facts <= beat_last ? 2'd0 : facts_now;
      end
    end
    if (ready) begin
      ends <= more ? ends : last12;
      left <= more ? left - 6'd32 : end12[5:0] - 6'd32;
    end
  end

  logic [31:0] beat_keep;
  always_comb begin
    for (integer b = 0; b < 32; b = b + 1) begin
      beat_keep[b] = beat_size > b[5:0];
    end
  end

  tern_slice #(
      .WIDTH(291)
  ) out (
      .clk(clk),
      .rst(rst),
      .s_data({beat_last, facts_now, beat_keep, more ? waiting : joined[255:0]}),
      .s_valid(beat),
      .s_ready(ready),
      .m_data({m_axis_tlast, m_axis_tuser, m_axis_tkeep, m_axis_tdata}),
      .m_valid(m_axis_tvalid),
      .m_ready(m_axis_tready)
  );
endmodule

// Tag and field of one value, after six stages.
module tern_inceptionn_code (
    input  logic        clk,
    input  logic        advance,
    input  logic        literal,
    input  logic [ 4:0] bound,
    input  logic [31:0] bits,
    input  logic        present,
    output logic [ 1:0] tag,
    output logic [31:0] field,      // 0 above its size
    output logic        any,
    output logic        non_finite
);
  // From limit on a value is kept: 1.0, or 32767.5 * 2^(1 - c), whose upper bits of the fraction are ones.
  // From middle on a literal one takes 16 bits, from least on 8. zero_shift - exponent is how far the
  // significand, whose upper 15 bits are k at 0, goes right.
  logic literal0;
  logic [7:0] limit0, middle0, least0, zero_shift0;
  always_ff @(posedge clk) begin
    literal0 <= literal;
    limit0 <= literal ? 8'd127 : 8'd142 - {3'd0, bound};
    middle0 <= 8'd127 - {4'd0, bound[4:1]};
    least0 <= 8'd127 - {3'd0, bound};
    zero_shift0 <= literal ? 8'd126 : 8'd142 - {3'd0, bound};
  end

  logic [7:0] exponent;
  assign exponent = bits[30:23];

  // 1: where the value lies
  logic [31:0] bits1, bits2, bits3, bits4, bits5;
  logic present1, present2, present3, present4, present5;
  logic above1, equal1, ones1, middle1, least1;
  logic literal1, literal2, literal3, literal4, literal5;
  logic [8:0] shift1;
  always_ff @(posedge clk) begin
    if (advance) begin
      bits1 <= bits;
      present1 <= present;
      literal1 <= literal0;
      above1 <= exponent > limit0;
      equal1 <= exponent == limit0;
      ones1 <= literal0 || (&bits[22:8]);
      middle1 <= exponent >= middle0;
      least1 <= exponent >= least0;
      shift1 <= {1'b0, zero_shift0} - {1'b0, exponent};
    end
  end

  // 2: tag but for the bounded ones that depend on k; how far to shift
  logic [1:0] tag2, tag3, tag4, tag5;
  logic [8:0] shift2;
  always_ff @(posedge clk) begin
    if (advance) begin
      tag2 <= above1 || (equal1 && ones1) ? 2'd3
            : !literal1 ? 2'd0 : middle1 ? 2'd2 : least1 ? 2'd1 : 2'd0;
      shift2 <= literal1 && !middle1 ? shift1 + 9'd8 : shift1;
      {bits2, present2, literal2} <= {bits1, present1, literal1};
    end
  end

  // 3 and 4: the significand shifted, and whether a one was lost
  logic [23:0] wide3, wide4;
  logic lost3, lost4, some3, some4;
  logic [1:0] fine3;
  logic [23:0] whole2;
  assign whole2 = {1'b1, bits2[22:0]};
  always_ff @(posedge clk) begin
    if (advance) begin
      case (shift2[3:2])
        2'd0: {wide3, lost3} <= {whole2, 1'b0};
        2'd1: {wide3, lost3} <= {4'd0, whole2[23:4], |whole2[3:0]};
        2'd2: {wide3, lost3} <= {8'd0, whole2[23:8], |whole2[7:0]};
        default: {wide3, lost3} <= {12'd0, whole2[23:12], |whole2[11:0]};
      endcase
      some3 <= shift2[8:4] == 0;
      fine3 <= shift2[1:0];
      {bits3, present3, literal3, tag3} <= {bits2, present2, literal2, tag2};
      case (fine3)
        2'd0: {wide4, lost4} <= {wide3, lost3};
        2'd1: {wide4, lost4} <= {1'd0, wide3[23:1], lost3 || wide3[0]};
        2'd2: {wide4, lost4} <= {2'd0, wide3[23:2], lost3 || (|wide3[1:0])};
        default: {wide4, lost4} <= {3'd0, wide3[23:3], lost3 || (|wide3[2:0])};
      endcase
      some4 <= some3;
      {bits4, present4, literal4, tag4} <= {bits3, present3, literal3, tag3};
    end
  end

  // 5: rounded to even, where literal ones are cut
  logic [14:0] k5;
  logic up4;
  assign up4 = !literal4 && wide4[8] && (wide4[9] || (|wide4[7:0]) || lost4);
  always_ff @(posedge clk) begin
    if (advance) begin
      k5 <= some4 ? wide4[23:9] + {14'd0, up4} : 15'd0;
      {bits5, present5, literal5, tag5} <= {bits4, present4, literal4, tag4};
    end
  end

  // 6: the field
  logic [1:0] whole_tag5;
  assign whole_tag5 = !present5 ? 2'd0
                    : literal5 || tag5 == 2'd3 ? tag5
                    : k5 == 0 ? 2'd0 : k5[14:7] == 0 ? 2'd1 : 2'd2;
  always_ff @(posedge clk) begin
    if (advance) begin
      tag <= whole_tag5;
      case (whole_tag5)
        2'd0: field <= 32'd0;
        2'd1: field <= {24'd0, bits5[31], k5[6:0]};
        2'd2: field <= {16'd0, bits5[31], k5};
        default: field <= bits5;
      endcase
      any <= whole_tag5 == 2'd3 || (whole_tag5 != 2'd0 && k5 != 0);
      non_finite <= present5 && bits5[30:23] == 8'hff;
    end
  end
endmodule
